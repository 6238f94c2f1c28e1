// SPDX-License-Identifier: Apache-2.0
// Synchronisation of one-sided accesses: fence; post, start, complete, wait; lock, unlock, flush.
#include <fmt/format.h>

#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/rma/window.hpp"
#include "opal/core/sync/fence.hpp"

namespace mpi_shim::api {
namespace {

/// Checks the window and calls `act(Call&, Window&)`.  `wrong`: the message for MPI_ERR_RMA_SYNC.
template <class Act>
int synchronise(const char* function, MPI_Win win, const char* wrong, Act&& act) {
  Call call{function};
  rma::Window* const window = call.window(win);
  if (call.failed()) return call.error();
  const int error = act(call, *window);
  if (call.failed()) return call.error();
  return error == MPI_ERR_RMA_SYNC ? call.fail(error, wrong) : call.finish(error);
}

/// Checks that `assertion` contains only the bits of `known`; false after an error.
bool asserts(Call& call, int assertion, int known) {
  if ((assertion & ~known) == 0) return true;
  call.fail(MPI_ERR_ASSERT,
            fmt::format("argument assert is {}, which has bits that this function does not define", assertion));
  return false;
}

bool is_rank(Call& call, const rma::Window& window, int rank) {
  if (rank >= 0 && rank < window.size()) return true;
  call.fail(MPI_ERR_RANK,
            fmt::format("argument rank is {}, but the window has the ranks 0 to {}", rank, window.size() - 1));
  return false;
}

constexpr int kPostAssertions = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
constexpr int kFenceAssertions = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
constexpr const char* kOtherEpoch = "an epoch is open that this call does not end";
constexpr const char* kNoEpoch = "the epoch that this call would end is not open";
constexpr const char* kNotPassive = "no passive target epoch is open towards the rank";

int flush(const char* function, int rank, MPI_Win win) {
  return synchronise(function, win, kNotPassive, [&](Call& call, rma::Window& window) {
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    return is_rank(call, window, rank) ? window.flush(rank) : MPI_ERR_RANK;
  });
}

/// A function whose only argument is the window.
int plain(const char* function, MPI_Win win, const char* wrong, int (rma::Window::*step)()) {
  return synchronise(function, win, wrong, [&](Call& /*call*/, rma::Window& window) { return (window.*step)(); });
}

}  // namespace

OPAL_MPI_FUNCTION(int, Win_fence, (int assertion, MPI_Win win)) {
  return synchronise("MPI_Win_fence", win, kOtherEpoch, [&](Call& call, rma::Window& window) {
    return asserts(call, assertion, kFenceAssertions) ? window.fence(assertion) : MPI_ERR_ASSERT;
  });
}

OPAL_MPI_FUNCTION(int, Win_start, (MPI_Group group, int assertion, MPI_Win win)) {
  return synchronise("MPI_Win_start", win, kOtherEpoch, [&](Call& call, rma::Window& window) {
    const auto members = call.group(group);
    if (call.failed() || !asserts(call, assertion, MPI_MODE_NOCHECK)) return call.error();
    return window.start(*members, assertion);
  });
}

OPAL_MPI_FUNCTION(int, Win_post, (MPI_Group group, int assertion, MPI_Win win)) {
  return synchronise("MPI_Win_post", win, kOtherEpoch, [&](Call& call, rma::Window& window) {
    const auto members = call.group(group);
    if (call.failed() || !asserts(call, assertion, kPostAssertions)) return call.error();
    return window.post(*members, assertion);
  });
}

OPAL_MPI_FUNCTION(int, Win_test, (MPI_Win win, int* flag)) {
  return synchronise("MPI_Win_test", win, kNoEpoch, [&](Call& call, rma::Window& window) {
    call.pointer(flag, "flag");
    if (call.failed()) return call.error();
    bool over = false;
    const int error = window.test(over);
    *flag = over ? 1 : 0;
    return error;
  });
}

OPAL_MPI_FUNCTION(int, Win_lock, (int lock_type, int rank, int assertion, MPI_Win win)) {
  return synchronise("MPI_Win_lock", win, kOtherEpoch, [&](Call& call, rma::Window& window) {
    if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED) {
      return call.fail(MPI_ERR_LOCKTYPE, "argument lock_type is neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED");
    }
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    if (!is_rank(call, window, rank) || !asserts(call, assertion, MPI_MODE_NOCHECK)) return call.error();
    return window.lock(rank, lock_type == MPI_LOCK_EXCLUSIVE, assertion);
  });
}

OPAL_MPI_FUNCTION(int, Win_unlock, (int rank, MPI_Win win)) {
  return synchronise("MPI_Win_unlock", win, kNoEpoch, [&](Call& call, rma::Window& window) {
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    return is_rank(call, window, rank) ? window.unlock(rank) : MPI_ERR_RANK;
  });
}

OPAL_MPI_FUNCTION(int, Win_lock_all, (int assertion, MPI_Win win)) {
  return synchronise("MPI_Win_lock_all", win, kOtherEpoch, [&](Call& call, rma::Window& window) {
    return asserts(call, assertion, MPI_MODE_NOCHECK) ? window.lock_all(assertion) : MPI_ERR_ASSERT;
  });
}

// An access completes at the origin when it is complete at the target, so the local forms equal the others.
OPAL_MPI_FORWARD(Win_flush, flush)
OPAL_MPI_FORWARD(Win_flush_local, flush)
OPAL_MPI_FORWARD(Win_flush_all, plain, kNotPassive, &rma::Window::flush_all)
OPAL_MPI_FORWARD(Win_flush_local_all, plain, kNotPassive, &rma::Window::flush_all)
OPAL_MPI_FORWARD(Win_complete, plain, kNoEpoch, &rma::Window::complete)
OPAL_MPI_FORWARD(Win_wait, plain, kNoEpoch, &rma::Window::wait)
OPAL_MPI_FORWARD(Win_unlock_all, plain, kNoEpoch, &rma::Window::unlock_all)

OPAL_MPI_FUNCTION(int, Win_sync, (MPI_Win win)) {
  return synchronise("MPI_Win_sync", win, kNotPassive, [](Call& /*call*/, rma::Window& window) {
    // The memory model is unified (MPI_WIN_UNIFIED): a fence for the loads and stores of this process is enough.
    opal::full_fence();
    window.engine().poll();  // applications call it in a loop that waits for a change of memory
    return MPI_SUCCESS;
  });
}

}  // namespace mpi_shim::api
