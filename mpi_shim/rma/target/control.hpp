// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/control.hpp — the locks of one target's window memory: the access lock (MPI_Win_lock),
// and the update lock, which makes accumulates, fetch-and-op and compare-and-swap atomic.  The ranks that share the
// memory of the target's host take both with CPU atomics; the target takes them for all other ranks.  Without shared
// memory the Control is private to its process. The locks of a process that dies stay taken, and the memory may be half
// written.  UpdateLock stores the rank of its holder; for AccessLock the Claims show which processes may hold it.  A
// waiting rank tests both and ends with MPI_ERR_PROC_ABORTED. Threads: all functions from any thread of these
// processes; release and unlock by the holder.
#pragma once
#include <atomic>
#include <cstdint>

#include "mpi_shim/rma/target/attention.hpp"

namespace mpi_shim::rma {

/// Many readers or one writer.  No function blocks: a waiting caller repeats the try.  While a writer waits,
/// try_shared() fails, so that the writer gets the lock.
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
  [[nodiscard]] bool try_exclusive() noexcept {
    std::uint32_t unlocked = 0;
    return state_.compare_exchange_strong(unlocked, kWriter, std::memory_order_acquire, std::memory_order_relaxed);
  }

  /// Ends the hold of a reader or of the writer.
  void release() noexcept {
    const bool exclusive = state_.load(std::memory_order_relaxed) == kWriter;
    state_.fetch_sub(exclusive ? kWriter : 1, std::memory_order_release);
  }

  /// A writer calls begin_waiting() before it repeats try_exclusive(), and end_waiting() when it has the lock or ends
  /// with an error.
  void begin_waiting() noexcept { writers_waiting_.fetch_add(1, std::memory_order_relaxed); }
  void end_waiting() noexcept { writers_waiting_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kWriter = 0x8000'0000U;
  std::atomic<std::uint32_t> state_{0};  // number of readers, or kWriter
  std::atomic<std::uint32_t> writers_waiting_{0};
};

/// One byte per pair (process of the host, AccessLock), in shared memory after the Controls (Target::claims).  The
/// process sets a bit before it tries to lock, and clears it after it has released the lock or has given up.
/// If a process dies with a bit set, the lock counts as lost.
using Claim = std::atomic<std::uint8_t>;
inline constexpr std::uint8_t kClaimsForItself = 1;  ///< it holds the lock or waits for it
inline constexpr std::uint8_t kClaimsForOthers =
    2;  ///< only the target: it holds the lock or waits for it on behalf of other ranks
inline constexpr std::uint8_t kClaimIsLost =
    4;  ///< only the target: a rank for which it held the lock has failed; never cleared

/// Held during one update: an accumulate in mapped memory, one piece of an access message, or one chunk of at most 64
/// KiB that the holder copies, perhaps by the transport's get and put.  The holder waits for these copies.
class UpdateLock {
 public:
  [[nodiscard]] bool try_lock(int rank) noexcept {
    std::uint32_t free = 0;
    return holder_.load(std::memory_order_relaxed) == 0 &&
           holder_.compare_exchange_strong(free, static_cast<std::uint32_t>(rank) + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  void unlock() noexcept { holder_.store(0, std::memory_order_release); }
  /// The rank of the holder in the window's communicator; -1: not held.
  [[nodiscard]] int holder() const noexcept { return static_cast<int>(holder_.load(std::memory_order_relaxed)) - 1; }

 private:
  std::atomic<std::uint32_t> holder_{0};
};

/// The two locks of one target, and its Attention.  All-zero bytes are unlocked locks of a target that computes.
struct alignas(64) Control {
  AccessLock access;
  alignas(64) UpdateLock update;
  alignas(64) Attention attention;
};
static_assert(sizeof(Control) == 192, "layout in shared memory: an array of Control, one per rank of the host");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && Claim::is_always_lock_free && sizeof(Claim) == 1,
              "a lock-based atomic does not work across processes");

}  // namespace mpi_shim::rma
