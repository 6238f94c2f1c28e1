// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/control.hpp — what guards one rank's window memory: the passive-target lock, and the lock under
// which elements are updated.  Lies in memory that all ranks of the owner's host share, so that they take both with CPU
// atomics and without the owner; ranks of other hosts ask the owner, which takes them on their behalf.
// A process that dies keeps what it holds.  Both locks name their holder, so that those that wait can end with
// an error: what the lock guards may be half written.
// Threads and processes: everything from anywhere.
#pragma once
#include <atomic>
#include <cstdint>

namespace mpi_shim::rma {

/// Many readers or one writer, by trying.  A writer that waits keeps new readers out, so that it gets its turn.
class AccessLock {
 public:
  [[nodiscard]] bool try_shared() noexcept {
    if (writers_waiting_.load(std::memory_order_relaxed) != 0) return false;
    std::uint32_t readers = state_.load(std::memory_order_relaxed);
    while ((readers & kWriter) == 0) {
      if (state_.compare_exchange_weak(readers, readers + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  void release_shared() noexcept { state_.fetch_sub(1, std::memory_order_release); }

  [[nodiscard]] bool try_exclusive() noexcept {
    std::uint32_t unlocked = 0;
    return state_.compare_exchange_strong(unlocked, kWriter, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void release_exclusive() noexcept { state_.store(0, std::memory_order_release); }

  /// Around the tries of a writer that does not give up.
  void begin_waiting() noexcept { writers_waiting_.fetch_add(1, std::memory_order_relaxed); }
  void end_waiting() noexcept { writers_waiting_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kWriter = 0x8000'0000U;
  std::atomic<std::uint32_t> state_{0};  // readers, or kWriter
  std::atomic<std::uint32_t> writers_waiting_{0};
};

/// What one process has to do with one rank's AccessLock: bits that it sets before it tries and clears after it has
/// given the lock back.  A claim of a dead process is a lock that may never be given back.
using Claim = std::atomic<std::uint8_t>;
inline constexpr std::uint8_t kClaimsForItself = 1;
inline constexpr std::uint8_t kClaimsForOthers = 2;  ///< the owner, for ranks of other hosts
inline constexpr std::uint8_t kClaimIsLost = 4;      ///< the owner: one of these died with the lock

/// Held for the update of some elements and never while waiting for a message: its holder releases it soon.
class UpdateLock {
 public:
  [[nodiscard]] bool try_lock(int rank) noexcept {
    std::uint32_t free = 0;
    return holder_.load(std::memory_order_relaxed) == 0 &&
           holder_.compare_exchange_strong(free, static_cast<std::uint32_t>(rank) + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  void unlock() noexcept { holder_.store(0, std::memory_order_release); }
  /// The rank of the process that holds it; -1: none.
  [[nodiscard]] int holder() const noexcept { return static_cast<int>(holder_.load(std::memory_order_relaxed)) - 1; }

 private:
  std::atomic<std::uint32_t> holder_{0};
};

struct alignas(64) Control {
  AccessLock access;
  alignas(64) UpdateLock update;
};
static_assert(sizeof(Control) == 128, "layout v2: an array of them lies in shared memory");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && Claim::is_always_lock_free && sizeof(Claim) == 1,
              "a lock-based atomic does not work across processes");

}  // namespace mpi_shim::rma
