// SPDX-License-Identifier: Apache-2.0
// Active target synchronisation: fences, and the four calls post, start, complete, wait.
#include <algorithm>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/host/team.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::rma {

/// Waits until all accesses to `target` are complete.  Returns the first error of one since the last call.
int Window::drain(Target& target) noexcept {
  if (target.pending.load(std::memory_order_acquire) != 0) {
    engine().wait_until([&] { return target.pending.load(std::memory_order_acquire) == 0; });
  }
  if (target.error == MPI_SUCCESS) [[likely]]
    return MPI_SUCCESS;
  return std::exchange(target.error, MPI_SUCCESS);
}

int Window::drain_all() noexcept {
  int first = MPI_SUCCESS;
  for (int rank = 0; rank < size(); ++rank) first = first_error(first, drain(target(rank)));
  return first;
}

/// Where all memory is shared, the ranks of a host meet in shared memory, as in MPI_Barrier: by messages it takes four
/// times as long.  For other windows a barrier by messages is faster: its waits poll the transports without a pause,
/// and so execute the accesses that come as messages sooner.  The kind of the window decides, which is equal in all
/// ranks.
int Window::barrier() {
  if (flavor_ == Flavor::allocate || flavor_ == Flavor::shared) {
    if (coll::HostTeam* const team = coll::HostTeam::for_collective(communicators_.job(), comm_)) {
      if (const coll::HostTeam::Outcome outcome = team->barrier()) return *outcome;
    }
  }
  return coll::run(comm_, [&](coll::Schedule& schedule) { coll::build_barrier(schedule); });
}

void Window::send_signal(Target& target, Tag tag) noexcept {
  const am::Lock::Guard guard{engine().lock()};
  if (engine().reach(*target.peer) != MPI_SUCCESS) return;  // a failed process needs no signal
  engine().send_control(*target.peer->endpoint, tag, wire::Signal{comm_.id(), comm_.rank()});
}

/// Sets `ranks` to the group's ranks in the window's communicator.  MPI_ERR_GROUP: a process is not in it.
int Window::find_ranks(const comm::Group& group, std::vector<int>& ranks) {
  ranks.clear();
  for (const int process : group.processes()) {
    ranks.push_back(comm_.group()->rank_of(process));
    if (ranks.back() == MPI_UNDEFINED) return MPI_ERR_GROUP;
  }
  return MPI_SUCCESS;
}

int Window::fence(int assertion) {
  if (access_open_ || exposure_open_ || locks_ != 0 || locks_all_) return MPI_ERR_RMA_SYNC;
  constexpr int kNothingToDo = MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
  int error = MPI_SUCCESS;
  if ((assertion & kNothingToDo) != kNothingToDo) {
    error = drain_all();
    error = first_error(error, barrier());
  }
  fence_open_ = (assertion & MPI_MODE_NOSUCCEED) == 0;
  fence_used_ = false;
  return error;
}

int Window::start(const comm::Group& group, int assertion) {
  if (access_open_ || locks_ != 0 || locks_all_ || (fence_open_ && fence_used_)) return MPI_ERR_RMA_SYNC;
  if (const int error = find_ranks(group, start_group_); error != MPI_SUCCESS) return error;
  fence_open_ = false;
  access_open_ = true;
  for (const int rank : start_group_) {
    Target& target = this->target(rank);
    target.started = true;
    if ((assertion & MPI_MODE_NOCHECK) != 0) continue;
    engine().wait_until(
        [&] {
          return target.posts.load(std::memory_order_acquire) != 0 || target.failed.load(std::memory_order_acquire);
        },
        "in MPI_Win_start for MPI_Win_post");
    if (target.failed.load(std::memory_order_acquire)) return MPI_ERR_PROC_ABORTED;
    target.posts.fetch_sub(1, std::memory_order_relaxed);
  }
  return MPI_SUCCESS;
}

int Window::complete() {
  if (!access_open_) return MPI_ERR_RMA_SYNC;
  int first = MPI_SUCCESS;
  for (const int rank : start_group_) {
    Target& target = this->target(rank);
    first = first_error(first, drain(target));
    target.started = false;
    send_signal(target, wire::kComplete);
  }
  access_open_ = false;
  return first;
}

int Window::post(const comm::Group& group, int assertion) {
  if (exposure_open_ || (fence_open_ && fence_used_)) return MPI_ERR_RMA_SYNC;
  if (const int error = find_ranks(group, exposed_to_); error != MPI_SUCCESS) return error;
  fence_open_ = false;
  exposure_open_ = true;
  if ((assertion & MPI_MODE_NOCHECK) != 0) return MPI_SUCCESS;  // MPI_Win_start with NOCHECK does not wait for it
  for (const int rank : exposed_to_) send_signal(target(rank), wire::kPost);
  return MPI_SUCCESS;
}

bool Window::all_completed() const noexcept {
  return std::all_of(exposed_to_.begin(), exposed_to_.end(),
                     [&](int rank) { return target(rank).completions.load(std::memory_order_acquire) > 0; });
}

bool Window::lost_an_origin() const noexcept {
  return std::any_of(exposed_to_.begin(), exposed_to_.end(),
                     [&](int rank) { return target(rank).failed.load(std::memory_order_acquire); });
}

int Window::wait() {
  if (!exposure_open_) return MPI_ERR_RMA_SYNC;
  engine().wait_until([&] { return all_completed() || lost_an_origin(); }, "in MPI_Win_wait for MPI_Win_complete");
  bool over = false;
  return test(over);
}

int Window::test(bool& over) {
  if (!exposure_open_) return MPI_ERR_RMA_SYNC;
  int error = MPI_SUCCESS;
  over = all_completed();
  if (!over) {
    engine().poll_all();
    over = all_completed();
  }
  if (!over && lost_an_origin()) {
    over = true;
    error = MPI_ERR_PROC_ABORTED;
  }
  if (!over) return MPI_SUCCESS;
  for (const int rank : exposed_to_) target(rank).completions.fetch_sub(1, std::memory_order_relaxed);
  exposure_open_ = false;
  return error;
}

}  // namespace mpi_shim::rma
