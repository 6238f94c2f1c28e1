// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/yield_policy.hpp — whether a waiting process whose core others want gives it away and looks again, or
// sleeps. Among processes that exchange messages a turn of the others takes microseconds and brings what is waited for,
// which costs less than sleeping and being woken.  A process that only computes keeps the core for its whole slice,
// some milliseconds, and what arrives meanwhile does not get it back, whereas a wake-up does.  So a long turn ends the
// wait's turns and those of some waits after it: the more, the more often it is so.
// Threads: any; what is lost between two at the same time is one step of the adaptation.
#pragma once
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "opal/core/clock.hpp"

namespace opal {

class YieldPolicy {
 public:
  static constexpr std::chrono::microseconds kCost{1};     ///< a call of the kernel, a switch, a look
  static constexpr std::uint64_t kLongTurnNs = 1'000'000;  ///< longer than a round of messages, shorter than a slice
  static constexpr std::uint32_t kLeastRest = 16;          ///< waits
  static constexpr std::uint32_t kMostRest = 1024;

  /// A wait begins: how many turns it may give before it sleeps, if it is to spend `spin` of its own time; 0: none.
  std::uint32_t begin(std::chrono::microseconds spin) noexcept {
    if (const std::uint32_t left = resting_.load(std::memory_order_relaxed); left != 0) {
      resting_.store(left - 1, std::memory_order_relaxed);
      return 0;
    }
    if (const std::uint32_t rest = rest_.load(std::memory_order_relaxed); rest != 0)
      rest_.store(rest / 2, std::memory_order_relaxed);
    return static_cast<std::uint32_t>(spin / kCost);
  }

  /// A turn took so long.  False: sleep instead of giving another one.
  bool took(std::uint64_t ns) noexcept {
    if (ns < kLongTurnNs) return true;
    const std::uint32_t rest = std::clamp(rest_.load(std::memory_order_relaxed) * 4, kLeastRest, kMostRest);
    rest_.store(rest, std::memory_order_relaxed);
    resting_.store(rest, std::memory_order_relaxed);
    return false;
  }

  /// Gives the core away once.  False: sleep instead of giving another turn.
  bool give() noexcept {
    const std::uint64_t begin = now_ns();
    (void)::sched_yield();
    return took(now_ns() - begin);
  }

 private:
  std::atomic<std::uint32_t> resting_{0};  // waits that still sleep at once
  std::atomic<std::uint32_t> rest_{0};     // how many there were the last time, halved by every wait since
};

}  // namespace opal
