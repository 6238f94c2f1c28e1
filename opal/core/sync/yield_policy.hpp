// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/yield_policy.hpp — decides how a waiting process that shares its core waits: it yields the core and
// polls again, or it sleeps.  If the other processes of the core exchange messages, a yield returns within microseconds
// and often with the awaited message, which is cheaper than a sleep and a wake-up.  If one of them computes, a yield
// returns only after its time slice of some milliseconds, even if a message arrives meanwhile; a sleeper is woken.
// So a yield that takes long ends the yields of this wait, and the next 16 to 1024 waits sleep at once.  This number
// grows by a factor of 4 with each long yield and halves with each wait that may yield again.
// Use: begin() once per wait, then yield() between polls, at most as often as begin() returned and until it is false.
// Threads: any; of two updates at the same time one may be lost.
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
  static constexpr std::chrono::microseconds kCost{1};      ///< own time per yield: system call, switch, poll
  static constexpr std::uint64_t kLongYieldNs = 1'000'000;  ///< a long yield: more than a round of messages takes
  static constexpr std::uint32_t kLeastRest = 16;           ///< waits that sleep at once after a long yield: at least
  static constexpr std::uint32_t kMostRest = 1024;          ///< and at most

  /// Begins a wait that may spend `spin` of its own time before it sleeps.  Returns the number of yields that it may
  /// make; 0: sleep at once.
  std::uint32_t begin(std::chrono::microseconds spin) noexcept {
    if (const std::uint32_t left = resting_.load(std::memory_order_relaxed); left != 0) {
      resting_.store(left - 1, std::memory_order_relaxed);
      return 0;
    }
    if (const std::uint32_t rest = rest_.load(std::memory_order_relaxed); rest != 0)
      rest_.store(rest / 2, std::memory_order_relaxed);
    return static_cast<std::uint32_t>(spin / kCost);
  }

  /// Records that a yield took `ns` nanoseconds.  False: do not yield again in this wait, sleep.
  bool record_yield(std::uint64_t ns) noexcept {
    if (ns < kLongYieldNs) return true;
    const std::uint32_t rest = std::clamp(rest_.load(std::memory_order_relaxed) * 4, kLeastRest, kMostRest);
    rest_.store(rest, std::memory_order_relaxed);
    resting_.store(rest, std::memory_order_relaxed);
    return false;
  }

  /// Yields the core once.  False: do not yield again in this wait, sleep.
  bool yield() noexcept {
    const std::uint64_t begin = now_ns();
    (void)::sched_yield();
    return record_yield(now_ns() - begin);
  }

 private:
  std::atomic<std::uint32_t> resting_{0};  // number of next waits that sleep at once
  std::atomic<std::uint32_t> rest_{0};     // resting_ after the last long yield, halved by each wait that could yield
};

}  // namespace opal
