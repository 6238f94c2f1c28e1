// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/errhandler.hpp — what happens when an MPI function fails.  Immutable but for the handle that a program
// has of it; shared by handles and objects.
#pragma once
#include "mpi_shim/include/mpi.h"

namespace mpi_shim {
struct ErrhandlerObject;
}

namespace mpi_shim::comm {

struct Errhandler {
  enum class Kind { fatal, abort, returning, comm_function, win_function };
  Kind kind = Kind::fatal;
  MPI_Comm_errhandler_function* function = nullptr;     ///< comm_function only
  MPI_Win_errhandler_function* win_function = nullptr;  ///< win_function only
  mutable ErrhandlerObject* object = nullptr;           ///< behind the program's handle, if any; core/handles.cpp
};

}  // namespace mpi_shim::comm
