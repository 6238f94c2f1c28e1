// SPDX-License-Identifier: Apache-2.0
// Passive target synchronisation.  Locks of ranks on this host are words in shared memory; those of other hosts are
// asked for, and their owner takes the word for the asker.
#include "mpi_shim/rma/window.hpp"
#include "opal/core/fence.hpp"
#include "opal/core/turns.hpp"

namespace mpi_shim::rma {
namespace {

constexpr std::uint32_t kFlushesPerRound = 16;  // of flushes that have nothing to wait for

}  // namespace

/// Waits for something in shared memory, whose change wakes nobody.
template <class Condition>
void Window::poll_until(Condition condition) noexcept {
  opal::Turns turns;
  bool give = true;
  for (int looks = 0; !condition(); ++looks) {
    if (engine().look() != 0 || looks < 20) continue;
    // Its holder may have to run on our core, and may hold it for long.
    if (give && looks < 500) {
      give = turns.give();
    } else {
      engine().context().wait(std::chrono::milliseconds{1});
    }
  }
}

int Window::take_lock(Target& target, bool exclusive) {
  if (target.control != nullptr) {
    AccessLock& lock = target.control->access;
    if (!exclusive) {
      poll_until([&] { return lock.try_shared(); });
    } else if (!lock.try_exclusive()) {
      lock.begin_waiting();
      poll_until([&] { return lock.try_exclusive(); });
      lock.end_waiting();
    }
    return MPI_SUCCESS;
  }
  {
    const am::Lock::Guard guard{engine().lock()};
    if (const int error = engine().reach(*target.peer); error != MPI_SUCCESS) return error;
    target.granted.store(false, std::memory_order_relaxed);
    engine().answer(*target.peer->endpoint, wire::kLock,
                    wire::LockRequest{comm_.id(), comm_.rank(), exclusive ? 1U : 0U, 0});
  }
  return MPI_SUCCESS;
}

/// The second half of take_lock(): locks of several targets are asked for together.
int Window::await_lock(Target& target) noexcept {
  if (target.control != nullptr) return MPI_SUCCESS;
  engine().wait_until(
      [&] { return target.granted.load(std::memory_order_acquire) || target.failed.load(std::memory_order_acquire); },
      "for the lock of a window");
  return target.granted.load(std::memory_order_acquire) ? MPI_SUCCESS : MPI_ERR_PROC_ABORTED;
}

void Window::give_lock_back(Target& target) noexcept {
  const Target::Held held = std::exchange(target.held, Target::Held::nothing);
  if (held == Target::Held::nothing || held == Target::Held::unchecked) return;
  const bool exclusive = held == Target::Held::exclusive;
  if (target.control != nullptr) {
    return exclusive ? target.control->access.release_exclusive() : target.control->access.release_shared();
  }
  const am::Lock::Guard guard{engine().lock()};
  target.unlocking.fetch_add(1, std::memory_order_relaxed);
  engine().answer(*target.peer->endpoint, wire::kUnlock,
                  wire::LockRequest{comm_.id(), comm_.rank(), exclusive ? 1U : 0U, 0});
}

int Window::lock(int rank, bool exclusive, int assertion) {
  Target& target = this->target(rank);
  if (locks_all_ || access_open_ || target.held != Target::Held::nothing || (fence_open_ && fence_used_))
    return MPI_ERR_RMA_SYNC;
  if ((assertion & MPI_MODE_NOCHECK) != 0) {
    target.held = Target::Held::unchecked;
  } else {
    if (const int error = take_lock(target, exclusive); error != MPI_SUCCESS) return error;
    if (const int error = await_lock(target); error != MPI_SUCCESS) return error;
    target.held = exclusive ? Target::Held::exclusive : Target::Held::shared;
  }
  fence_open_ = false;
  ++locks_;
  return MPI_SUCCESS;
}

int Window::unlock(int rank) {
  Target& target = this->target(rank);
  if (locks_all_ || target.held == Target::Held::nothing) return MPI_ERR_RMA_SYNC;
  engine().look();
  const int error = drain(target);
  give_lock_back(target);
  --locks_;
  return error;
}

int Window::lock_all(int assertion) {
  if (locks_all_ || access_open_ || locks_ != 0 || (fence_open_ && fence_used_)) return MPI_ERR_RMA_SYNC;
  const bool check = (assertion & MPI_MODE_NOCHECK) == 0;
  for (int rank = 0; rank < size() && check; ++rank) {
    if (const int error = take_lock(target(rank), false); error != MPI_SUCCESS) return error;
  }
  for (int rank = 0; rank < size(); ++rank) {
    Target& target = this->target(rank);
    if (check) {
      if (const int error = await_lock(target); error != MPI_SUCCESS) return error;
    }
    target.held = check ? Target::Held::shared : Target::Held::unchecked;
  }
  fence_open_ = false;
  locks_all_ = true;
  return MPI_SUCCESS;
}

int Window::unlock_all() {
  if (!locks_all_) return MPI_ERR_RMA_SYNC;
  const int error = drain_all();
  for (int rank = 0; rank < size(); ++rank) give_lock_back(target(rank));
  locks_all_ = false;
  return error;
}

int Window::flush(int rank) {
  if (!passive(rank)) return MPI_ERR_RMA_SYNC;
  Target& target = this->target(rank);
  opal::ordering_fence();  // loads and stores in mapped memory before those that follow
  // A program that spins over accesses and flushes still serves its peers; where accesses are done when they return, a
  // round of progress each time would cost more than they do.
  const std::uint32_t flushes = flushes_.load(std::memory_order_relaxed) + 1;
  flushes_.store(flushes, std::memory_order_relaxed);
  if (target.path.load(std::memory_order_relaxed) != Target::Path::mapped || flushes % kFlushesPerRound == 0)
    engine().look();
  return drain(target);
}

int Window::flush_all() {
  if (!locks_all_ && locks_ == 0) return MPI_ERR_RMA_SYNC;
  engine().look();
  return drain_all();
}

}  // namespace mpi_shim::rma
