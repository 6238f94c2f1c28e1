// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/control.hpp — what guards one rank's window memory: the passive-target lock, and the lock under which
// elements are updated.  Lies in memory that all ranks of the owner's host share, so that they take both with CPU
// atomics and without the owner; ranks of other hosts ask the owner, who takes them on their behalf.
// Threads and processes: everything from anywhere.
#pragma once
#include <atomic>
#include <cstdint>

namespace mpi_shim::rma {

/// Many readers or one writer, by trying.  A writer that waits keeps new readers out, so that it gets its turn.
class AccessLock {
 public:
  [[nodiscard]] bool try_shared() noexcept;
  void release_shared() noexcept { state_.fetch_sub(1, std::memory_order_release); }

  [[nodiscard]] bool try_exclusive() noexcept;
  void release_exclusive() noexcept { state_.store(0, std::memory_order_release); }

  /// Around the tries of a writer that does not give up.
  void begin_waiting() noexcept { writers_waiting_.fetch_add(1, std::memory_order_relaxed); }
  void end_waiting() noexcept { writers_waiting_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kWriter = 0x8000'0000U;
  std::atomic<std::uint32_t> state_{0};  // readers, or kWriter
  std::atomic<std::uint32_t> writers_waiting_{0};
};

/// Held for the update of some elements and never while waiting for a message: whoever holds it lets go soon.
class UpdateLock {
 public:
  [[nodiscard]] bool try_lock() noexcept {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

struct alignas(64) Control {
  AccessLock access;
  alignas(64) UpdateLock update;
};
static_assert(sizeof(Control) == 128, "layout v1: an array of them lies in shared memory");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a lock-based atomic does not work across processes");

}  // namespace mpi_shim::rma
