// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/errhandler.hpp — what happens when an MPI function fails.  Immutable but for the handle that a program
// has of it; shared by handles and objects.
#pragma once
#include <memory>
#include <mutex>
#include <utility>

#include "mpi_shim/include/mpi.h"
#include "opal/core/sync/spin_lock.hpp"

namespace mpi_shim {
struct ErrhandlerObject;
}

namespace mpi_shim::comm {

struct Errhandler {
  enum class Kind { fatal, abort, returning, comm_function, win_function };
  Kind kind = Kind::fatal;
  MPI_Comm_errhandler_function* function = nullptr;     ///< comm_function only
  MPI_Win_errhandler_function* win_function = nullptr;  ///< win_function only
  mutable ErrhandlerObject* object = nullptr;           ///< behind the program's handle, if any; process/handles.cpp
};

/// The error handler of an object.  Threads: safe from any thread.
class ErrhandlerSlot {
 public:
  [[nodiscard]] std::shared_ptr<const Errhandler> get() const {
    const std::lock_guard guard{lock_};
    return errhandler_;
  }
  void set(std::shared_ptr<const Errhandler> errhandler) {
    const std::lock_guard guard{lock_};
    errhandler_.swap(errhandler);  // the last reference to the earlier one may end here, after the lock
  }

 private:
  mutable opal::SpinLock lock_;
  std::shared_ptr<const Errhandler> errhandler_;
};

}  // namespace mpi_shim::comm
