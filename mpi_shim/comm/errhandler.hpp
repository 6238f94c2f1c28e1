// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/errhandler.hpp — an MPI error handler.  Immutable except for `object`; shared by handles and by the
// communicators and windows that use it.
#pragma once
#include <memory>
#include <mutex>

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
  mutable ErrhandlerObject* object = nullptr;  ///< its one handle object; null: none.  Lock: process/handles.cpp
};

/// The error handler of a communicator or window.  Threads: any.
class ErrhandlerSlot {
 public:
  [[nodiscard]] std::shared_ptr<const Errhandler> get() const {
    const std::lock_guard guard{lock_};
    return errhandler_;
  }
  void set(std::shared_ptr<const Errhandler> errhandler) {
    const std::lock_guard guard{lock_};
    errhandler_.swap(errhandler);  // so the old one is released after the lock
  }

 private:
  mutable opal::SpinLock lock_;
  std::shared_ptr<const Errhandler> errhandler_;
};

}  // namespace mpi_shim::comm
