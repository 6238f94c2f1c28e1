// SPDX-License-Identifier: Apache-2.0
// The Component of the self transport.
#include "opal/btl/component.hpp"

#include "opal/btl/self/module.hpp"

namespace opal::btl::self {
namespace {

constexpr std::uint32_t kExclusivity = 65536;  // above all others: messages to the own Context use self

Result<Modules> open(const ModuleParameters& parameters, const config::Store& /*store*/) {
  return only(Module::open(parameters));
}

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
