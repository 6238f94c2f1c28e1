// SPDX-License-Identifier: Apache-2.0
// Passive target synchronisation.  Each target has one access lock (target/control.hpp).  If it is in memory that this
// process shares (Target::control), this process takes it with CPU atomics.  Otherwise it sends a LockRequest, and the
// target takes the lock on its behalf.
#include "mpi_shim/rma/window.hpp"
#include "opal/core/sync/fence.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace mpi_shim::rma {
namespace {

constexpr std::uint32_t kFlushesPerPoll = 16;  // of mapped targets; see flush()

/// Clears the claim of this process for itself.  Called after it has released the lock or has given up taking it.
/// Release order: the release of the lock precedes the end of the claim.
void drop_claim(Claim& claim) noexcept {
  claim.fetch_and(static_cast<std::uint8_t>(~kClaimsForItself), std::memory_order_release);
}

}  // namespace

/// Whether the process of `rank` has failed or cannot be reached.  Connects to it if necessary: only failures of
/// connected processes are detected.  False for this rank and for -1 (UpdateLock::holder(): no holder).
bool Window::has_failed(int rank) noexcept {
  if (rank < 0 || rank == comm_.rank() || rank >= size()) return false;
  const am::Lock::Guard guard{engine().lock()};
  return engine().reach(*target(rank).peer) != MPI_SUCCESS;
}

/// Whether the access lock of `target` may never be released: a process with a claim on it has failed, or a rank has
/// failed while the target held the lock on its behalf (kClaimIsLost).
bool Window::is_access_lock_lost(const Target& target) noexcept {
  for (std::size_t place = 0; place < host_ranks_.size(); ++place) {
    const std::uint8_t claim = target.claims[place].load(std::memory_order_relaxed);
    if ((claim & kClaimIsLost) != 0 || (claim != 0 && has_failed(host_ranks_[place]))) return true;
  }
  return false;
}

/// Repeats `condition`, which tries to take the target's access lock in shared memory, until it is true.  A release
/// wakes no thread, so it polls.
/// MPI_ERR_PROC_ABORTED: the lock is lost (is_access_lock_lost()), or the target has failed.  The latter counts since a
/// live holder may have got an error from the failed target, and then it may never unlock.
template <class Condition>
int Window::poll_until(Target& target, Condition condition) noexcept {
  opal::YieldPolicy yield_policy;
  bool may_yield = true;
  for (int polls = 0; !condition(); ++polls) {
    if (engine().poll_all() != 0 || polls < 20) continue;
    // Poll, then yield the core, which the holder may need, then sleep, since the holder may keep the lock for long.
    if (may_yield && polls < 500) {
      may_yield = yield_policy.yield();
    } else {
      engine().context().wait(std::chrono::milliseconds{1});
      if (is_access_lock_lost(target) || has_failed(rank_of(target))) {
        return condition() ? MPI_SUCCESS : MPI_ERR_PROC_ABORTED;
      }
    }
  }
  return MPI_SUCCESS;
}

/// Takes the access lock of `target`, itself or by a LockRequest.  MPI_ERR_PROC_ABORTED: the lock is lost, or the
/// target has failed.  MPI_ERR_OTHER: the target cannot be reached.  Does not change target.held.
int Window::take_lock(Target& target, bool exclusive) {
  if (target.control != nullptr) {
    AccessLock& lock = target.control->access;
    own_claim(target).fetch_or(kClaimsForItself, std::memory_order_relaxed);
    int error = MPI_SUCCESS;
    if (!exclusive) {
      error = poll_until(target, [&] { return lock.try_shared(); });
    } else if (!lock.try_exclusive()) {
      lock.begin_waiting();  // keeps out new holders of the shared lock
      error = poll_until(target, [&] { return lock.try_exclusive(); });
      lock.end_waiting();
    }
    if (error != MPI_SUCCESS) drop_claim(own_claim(target));
    return error;
  }
  {
    const am::Lock::Guard guard{engine().lock()};
    if (const int error = engine().reach(*target.peer); error != MPI_SUCCESS) return error;
    target.granted.store(false, std::memory_order_relaxed);
    target.refused.store(false, std::memory_order_relaxed);
    engine().send_control(*target.peer->endpoint, wire::kLock,
                          wire::LockRequest{comm_.id(), comm_.rank(), exclusive ? 1U : 0U, 0});
  }
  engine().wait_until(
      [&] {
        return target.granted.load(std::memory_order_acquire) || target.refused.load(std::memory_order_acquire) ||
               target.failed.load(std::memory_order_acquire);
      },
      "for the lock of a window");
  return target.granted.load(std::memory_order_acquire) ? MPI_SUCCESS : MPI_ERR_PROC_ABORTED;
}

/// take_lock(), and records the result in target.held.
int Window::hold_lock(Target& target, bool exclusive) {
  const int error = take_lock(target, exclusive);
  if (error == MPI_SUCCESS) target.held = exclusive ? Target::LockMode::exclusive : Target::LockMode::shared;
  return error;
}

/// Ends the hold on the target, in the mode that target.held has.  Does not wait for the answer to an unlock message.
void Window::give_lock_back(Target& target) noexcept {
  const Target::LockMode held = target.held.exchange(Target::LockMode::nothing, std::memory_order_relaxed);
  if (held == Target::LockMode::nothing || held == Target::LockMode::unchecked) return;
  if (target.control != nullptr) {
    target.control->access.release();
    return drop_claim(own_claim(target));
  }
  const am::Lock::Guard guard{engine().lock()};
  target.unlocking.fetch_add(1, std::memory_order_relaxed);  // close() waits for the answers
  engine().send_control(*target.peer->endpoint, wire::kUnlock,
                        wire::LockRequest{comm_.id(), comm_.rank(), held == Target::LockMode::exclusive ? 1U : 0U, 0});
}

int Window::lock(int rank, bool exclusive, int assertion) {
  Target& target = this->target(rank);
  if (locks_all_ || access_open_ || target.held != Target::LockMode::nothing || (fence_open_ && fence_used_))
    return MPI_ERR_RMA_SYNC;
  if ((assertion & MPI_MODE_NOCHECK) != 0) {
    target.held = Target::LockMode::unchecked;
  } else {
    if (const int error = hold_lock(target, exclusive); error != MPI_SUCCESS) return error;
  }
  fence_open_ = false;
  ++locks_;
  return MPI_SUCCESS;
}

int Window::unlock(int rank) {
  Target& target = this->target(rank);
  if (locks_all_ || target.held == Target::LockMode::nothing) return MPI_ERR_RMA_SYNC;
  opal::full_fence();  // as in flush(): with MPI_MODE_NOCHECK no lock is released and taken
  engine().poll_all();
  const int error = drain(target);
  give_lock_back(target);
  --locks_;
  return error;
}

/// Locks the ranks whose lock is in shared memory.  Another rank is locked at the first access to it
/// (lock_at_first_access()), since an application seldom accesses them all.
int Window::lock_all(int assertion) {
  if (locks_all_ || access_open_ || locks_ != 0 || (fence_open_ && fence_used_)) return MPI_ERR_RMA_SYNC;
  const bool check = (assertion & MPI_MODE_NOCHECK) == 0;
  int error = MPI_SUCCESS;
  for (int rank = 0; rank < size() && error == MPI_SUCCESS; ++rank) {
    Target& target = this->target(rank);
    if (!check) {
      target.held = Target::LockMode::unchecked;
    } else if (target.control != nullptr) {  // the application may load and store there without an MPI call
      error = hold_lock(target, false);
    }
  }
  if (error != MPI_SUCCESS) {
    for (int rank = 0; rank < size(); ++rank) give_lock_back(target(rank));
    return error;
  }
  fence_open_ = false;
  locks_all_ = true;
  return MPI_SUCCESS;
}

/// Takes the shared lock of `target` in an epoch of MPI_Win_lock_all, unless another thread has taken it already.
int Window::lock_at_first_access(Target& target) {
  const std::lock_guard guard{first_access_};
  return target.held != Target::LockMode::nothing ? MPI_SUCCESS : hold_lock(target, false);
}

int Window::unlock_all() {
  if (!locks_all_) return MPI_ERR_RMA_SYNC;
  opal::full_fence();  // as in flush()
  const int error = drain_all();
  for (int rank = 0; rank < size(); ++rank) give_lock_back(target(rank));
  locks_all_ = false;
  return error;
}

int Window::flush(int rank) {
  if (!passive(rank)) return MPI_ERR_RMA_SYNC;
  Target& target = this->target(rank);
  // A put to mapped memory is a store.  It completes at the target here, so all ranks see it before this rank gets
  // anything: also a store comes before a later load.
  opal::full_fence();
  // Polls, so that an application that loops over accesses and flushes still serves its peers.  An access to mapped
  // memory costs less than a poll, so for mapped targets only one of kFlushesPerPoll flushes polls.
  const std::uint32_t flushes = flushes_.load(std::memory_order_relaxed) + 1;
  flushes_.store(flushes, std::memory_order_relaxed);
  if (target.path.load(std::memory_order_relaxed) != Target::Path::mapped || flushes % kFlushesPerPoll == 0)
    engine().poll_all();
  return drain(target);
}

int Window::flush_all() {
  if (!locks_all_ && locks_ == 0) return MPI_ERR_RMA_SYNC;
  opal::full_fence();  // as in flush()
  engine().poll_all();
  return drain_all();
}

}  // namespace mpi_shim::rma
