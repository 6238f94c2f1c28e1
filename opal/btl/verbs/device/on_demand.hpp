// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/on_demand.hpp — whether a device reaches memory on demand, through the page tables, instead of
// having it pinned.  A device that offers that may move wrong bytes all the same (rxe of Linux 7.3 does), so it is
// tried out first, on two queue pairs of its own.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "opal/btl/verbs/device/device.hpp"

namespace opal::btl::verbs {

struct OnDemand {
  bool regions = false;     ///< registered memory is not pinned
  MemoryRegion everything;  ///< all that this process has mapped, for its own puts and gets; null: register it
};

/// `wanted`: Config::on_demand; `port`, `ip`: of the module, the address whose GID is used.  Says in one line of the
/// log why a device that offers it is used without, or why one that was to be used with it is not.
OnDemand find_on_demand(const Device& device, std::string_view wanted, std::uint8_t port,
                        const std::array<std::uint8_t, 16>& ip);

}  // namespace opal::btl::verbs
