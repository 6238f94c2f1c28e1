// SPDX-License-Identifier: Apache-2.0
// The component of this folder in a build without the headers of libfabric.
#include "opal/btl/component.hpp"
#include "opal/btl/ofi/config.hpp"

namespace opal::btl::ofi {
namespace {

constexpr Error kAbsent{Errc::not_supported, 0,
                        "ofi: built without the headers of libfabric (install libfabric-dev, build again)"};

constexpr Component kComponent{
    .name = "ofi",
    .summary = kSummary,
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return Result<void>{kAbsent}; },
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::ofi
