// SPDX-License-Identifier: Apache-2.0
// The component of this folder in a build without libibverbs and librdmacm.
#include "opal/btl/component.hpp"
#include "opal/btl/verbs/config.hpp"

namespace opal::btl::verbs {
namespace {

constexpr Error kAbsent{
    Errc::not_supported, 0,
    "verbs: built without libibverbs and librdmacm (install libibverbs-dev librdmacm-dev, build again)"};

constexpr Component kComponent{
    .name = "verbs",
    .summary = kSummary,
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return Result<void>{kAbsent}; },
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::verbs
