// SPDX-License-Identifier: Apache-2.0
// Synchronisation of one-sided accesses: fence; post, start, complete, wait; lock, unlock, flush.
#include <fmt/format.h>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/rma/window.hpp"
#include "opal/core/sync/fence.hpp"

namespace mpi_shim::api {
namespace {

/// The end of a function of synchronisation.  `wrong`: the message for MPI_ERR_RMA_SYNC.
int synchronised(Call& call, int error, const char* wrong) {
  if (error == MPI_ERR_RMA_SYNC) call.fail(error, wrong);
  return call.finish(error);
}

/// Checks that `assertion` contains only the bits of `known`.
void check_assertion(Call& call, int assertion, int known) {
  if ((assertion & ~known) == 0) return;
  call.fail(MPI_ERR_ASSERT,
            fmt::format("argument assert is {}, which has bits that this function does not define", assertion));
}

constexpr int kPostAssertions = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
constexpr int kFenceAssertions = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
constexpr const char* kOtherEpoch = "another epoch is open; end it before this call";
constexpr const char* kNoEpoch = "the epoch that this call would end is not open";
constexpr const char* kNotPassive = "no passive target epoch is open towards the rank";
constexpr const char* kNonePassive = "no passive target epoch is open";

/// A function whose only other argument is a rank.
int on_rank(Call& call, int rank, MPI_Win win, const char* wrong, int (rma::Window::*step)(int)) {
  rma::Window* const window = call.window(win);
  call.target(window, rank, "rank");
  if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
  return synchronised(call, (window->*step)(rank), wrong);
}

/// A function whose only argument is the window.
int on_window(Call& call, MPI_Win win, const char* wrong, int (rma::Window::*step)()) {
  return synchronised(call, (call.window(win)->*step)(), wrong);
}

}  // namespace

OPAL_MPI_CALL(Win_fence, (Call & call, int assertion, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  check_assertion(call, assertion, kFenceAssertions);
  return synchronised(call, window->fence(assertion), kOtherEpoch);
}

OPAL_MPI_CALL(Win_start, (Call & call, MPI_Group group, int assertion, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  const auto members = call.group(group);
  check_assertion(call, assertion, MPI_MODE_NOCHECK);
  return synchronised(call, window->start(*members, assertion), kOtherEpoch);
}

OPAL_MPI_CALL(Win_post, (Call & call, MPI_Group group, int assertion, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  const auto members = call.group(group);
  check_assertion(call, assertion, kPostAssertions);
  return synchronised(call, window->post(*members, assertion), kOtherEpoch);
}

OPAL_MPI_CALL(Win_test, (Call & call, MPI_Win win, int* flag)) {
  rma::Window* const window = call.window(win);
  bool over = false;
  const int error = window->test(over);
  *flag = over ? 1 : 0;
  return synchronised(call, error, kNoEpoch);
}

OPAL_MPI_CALL(Win_lock, (Call & call, int lock_type, int rank, int assertion, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED) {
    call.fail(MPI_ERR_LOCKTYPE, "argument lock_type is neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED");
  }
  call.target(window, rank, "rank");
  if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
  check_assertion(call, assertion, MPI_MODE_NOCHECK);
  return synchronised(call, window->lock(rank, lock_type == MPI_LOCK_EXCLUSIVE, assertion), kOtherEpoch);
}

OPAL_MPI_CALL(Win_lock_all, (Call & call, int assertion, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  check_assertion(call, assertion, MPI_MODE_NOCHECK);
  return synchronised(call, window->lock_all(assertion), kOtherEpoch);
}

// An access completes at the origin when it is complete at the target, so the local forms equal the others.
OPAL_MPI_FORWARD(Win_flush, on_rank, kNotPassive, &rma::Window::flush)
OPAL_MPI_FORWARD(Win_flush_local, on_rank, kNotPassive, &rma::Window::flush)
OPAL_MPI_FORWARD(Win_flush_all, on_window, kNonePassive, &rma::Window::flush_all)
OPAL_MPI_FORWARD(Win_flush_local_all, on_window, kNonePassive, &rma::Window::flush_all)
OPAL_MPI_FORWARD(Win_complete, on_window, kNoEpoch, &rma::Window::complete)
OPAL_MPI_FORWARD(Win_wait, on_window, kNoEpoch, &rma::Window::wait)
OPAL_MPI_FORWARD(Win_unlock, on_rank, kNoEpoch, &rma::Window::unlock)
OPAL_MPI_FORWARD(Win_unlock_all, on_window, kNoEpoch, &rma::Window::unlock_all)

OPAL_MPI_CALL(Win_sync, (Call & call, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  // The memory model is unified (MPI_WIN_UNIFIED): a fence for the loads and stores of this process is enough.
  opal::full_fence();
  window->engine().progress_or_yield();  // applications call MPI_Win_sync in a loop that waits for a change of memory
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
