// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/tcp/module.hpp"

namespace opal::btl::tcp {
namespace {

constexpr Component kComponent{
    .name = "tcp",
    .summary = "TCP connections between any hosts",
    .exclusivity = 100,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return Result<void>{}; },
    .open = &open_one<Module, kGroup>,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::tcp
