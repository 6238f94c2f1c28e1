// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/self/module.hpp"

namespace opal::btl::self {
namespace {

constexpr std::uint32_t kExclusivity = 65536;  // no other transport carries messages to the own process

Result<Modules> open(const Host& host, const config::Store& /*store*/) { return only(Module::open(host)); }

constexpr Component kComponent{
    .name = "self",
    .summary = "Messages of a process to itself",
    .exclusivity = kExclusivity,
    .reach = Reach::itself,
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::self
