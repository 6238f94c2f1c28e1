// SPDX-License-Identifier: Apache-2.0
// opal/am/spin.hpp — the polling phase of a wait before the thread sleeps; am_spin and am_ranks_per_core control it.
// Threads: any; each yield_policy belongs to one caller at a time.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/am/config.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace opal::am {

/// Calls `look()`, which returns a number of events, until that is not 0, and returns the number.
/// Returns 0 when config.spin or `deadline` is over: the caller sleeps then.
template <class Look>
std::size_t spin(const Config& config, YieldPolicy& yield_policy, const Deadline& deadline, Look look) noexcept {
  if (config.ranks_per_core > 1) {
    // The sender may be waiting for this core.  Yielding to other processes costs about a microsecond.
    for (std::uint32_t left = yield_policy.begin(config.spin); left != 0 && yield_policy.yield(); --left) {
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
