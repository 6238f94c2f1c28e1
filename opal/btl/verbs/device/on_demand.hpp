// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/on_demand.hpp — decides whether on-demand paging is used for a device instead of pinning.
// A device that offers it may move wrong bytes (rxe of Linux 7.3 does), so a trial on two separate queue pairs tests
// it.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "opal/btl/verbs/device/device.hpp"

namespace opal::btl::verbs {

struct OnDemand {
  bool regions = false;     ///< memory is registered without being pinned
  MemoryRegion everything;  ///< the whole address space, for local buffers of puts and gets; null: register each buffer
};

/// `wanted`: Config::on_demand.  `port`, `ip`: of the module; the trial uses the GID of `ip`.  Logs why on-demand
/// paging is not used, if the device offers it or `wanted` is "yes".
OnDemand find_on_demand(const Device& device, std::string_view wanted, std::uint8_t port,
                        const std::array<std::uint8_t, 16>& ip);

}  // namespace opal::btl::verbs
