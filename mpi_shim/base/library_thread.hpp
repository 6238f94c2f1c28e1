// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/library_thread.hpp — marks the threads that the library makes.  They must not call functions of the
// application, which expects its calls in its own threads, inside MPI calls.
#pragma once

namespace mpi_shim {

/// Set once by such a thread.
inline thread_local bool is_library_thread = false;

}  // namespace mpi_shim
