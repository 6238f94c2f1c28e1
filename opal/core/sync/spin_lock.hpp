// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/spin_lock.hpp — a lock for critical sections of a few instructions; constant-initialised, with a
// trivial destructor.  A waiter spins 100 times, then calls sched_yield(), so that a preempted holder can run.
// Not recursive.
#pragma once
#include <sched.h>

#include <atomic>

#include "opal/core/clock.hpp"

namespace opal {

class SpinLock {
 public:
  constexpr SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline, gnu::cold]] void wait() noexcept {
    int spins = 0;
    do {
      while (taken_.load(std::memory_order_relaxed)) {
        cpu_relax();
        if (++spins > 100) ::sched_yield();
      }
    } while (taken_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> taken_{false};
};

}  // namespace opal
