// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/self/module.hpp"

namespace opal::btl::self {
namespace {

constexpr std::uint32_t kExclusivity = 65536;  // no other transport carries messages to the own process

constexpr Component kComponent{
    .name = "self",
    .summary = "Messages of a process to itself",
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .reach = Reach::itself,
    .usable = [](const config::Store&) noexcept { return Result<void>{}; },
    .open = &open_one<Module, kGroup>,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::self
