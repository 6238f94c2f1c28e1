// SPDX-License-Identifier: Apache-2.0
// mpi_shim/handle/spin_lock.hpp — a lock for a few instructions, constant-initialised and never destroyed.
// Spins briefly, then yields: on an oversubscribed core the holder has to run.
#pragma once
#include <sched.h>

#include <atomic>

namespace mpi_shim::handle {

class SpinLock {
 public:
  constexpr SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept {
    for (int spins = 0; taken_.exchange(true, std::memory_order_acquire); ++spins) {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++spins > 100) ::sched_yield();
      }
    }
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace mpi_shim::handle
