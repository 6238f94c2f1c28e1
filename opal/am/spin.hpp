// SPDX-License-Identifier: Apache-2.0
// opal/am/spin.hpp — the spin phase of a wait before it sleeps, set by am_spin and am_ranks_per_core.
// Threads: any.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/am/config.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace opal::am {

/// Calls `look()`, which returns a number of events, until it is not 0, and returns it.  0: it is time to sleep.
template <class Look>
std::size_t spin(const Config& config, YieldPolicy& yield_policy, const Deadline& deadline, Look look) noexcept {
  if (config.ranks_per_core > 1) {
    // The sender may be waiting for this core.  A turn of the others costs about a microsecond.
    for (std::uint32_t left = yield_policy.begin(config.spin); left != 0 && yield_policy.give(); --left) {
      if (const std::size_t count = look()) return count;
      if (deadline.expired()) return 0;
    }
    return 0;
  }
  const Deadline end = Deadline::after(config.spin);
  while (!end.expired() && !deadline.expired()) {
    for (int i = 0; i < 16; ++i) {
      if (const std::size_t count = look()) return count;
      cpu_relax();
    }
  }
  return 0;
}

}  // namespace opal::am
