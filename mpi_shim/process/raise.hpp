// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/raise.hpp — an MPI function has failed: the error handler of the object concerned decides what
// happens. Threads: safe from any thread; a user's handler runs in the caller's.
#pragma once
#include "mpi_shim/abi/unsupported.hpp"

namespace mpi_shim {

using opal::mpi::ErrorScope;

/// Raises `error_class` on `scope`'s handler: prints "rank 3: MPI_Send: <message> (MPI_ERR_RANK)" and ends the job, or
/// calls the program's function, or does nothing.  Returns what the MPI function is to return.
int raise(ErrorScope scope, int error_class, const char* function, const char* message);

}  // namespace mpi_shim
