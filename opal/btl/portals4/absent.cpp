// SPDX-License-Identifier: Apache-2.0
// The component of this folder in a build without the header of Portals 4.
#include "opal/btl/component.hpp"
#include "opal/btl/portals4/config.hpp"

namespace opal::btl::portals4 {
namespace {

constexpr Error kAbsent{Errc::not_supported, 0,
                        "portals4: built without portals4.h (install a Portals 4 library, build again with "
                        "-DPORTALS4_INCLUDE_DIR=its include folder)"};

constexpr Component kComponent{
    .name = "portals4",
    .summary = kSummary,
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return Result<void>{kAbsent}; },
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::portals4
