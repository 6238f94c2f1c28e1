// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/sim/module.hpp"

namespace opal::btl::sim {
namespace {

constexpr Component kComponent{
    .name = "sim",
    .summary = "A simulated fabric between the contexts of one process, for tests",
    .exclusivity = 1,
    .vars = &kGroup,
    .reach = Reach::process,
    .on_request = true,
    .usable = [](const config::Store&) noexcept { return Result<void>{}; },
    .open = &open_one<Module, kGroup>,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::sim
