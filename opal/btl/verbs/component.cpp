// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/verbs/module.hpp"

namespace opal::btl::verbs {
namespace {

constexpr Component kComponent{
    .name = "verbs",
    .summary = kSummary,
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return devices_present(); },
    .open = &open_one<Module, kGroup>,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::verbs
