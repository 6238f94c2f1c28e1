// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/immediate.hpp — requests of operations that are done as soon as they start: small sends that went
// out at once, and everything with MPI_PROC_NULL.  The ones that are not persistent are shared by all users:
// they cost no allocation and are never written.  Threads: safe from any thread.
#pragma once
#include "mpi_shim/request/request.hpp"

namespace mpi_shim {

/// Of a send that is over.
Request& done_send_request() noexcept;
/// Of a receive from MPI_PROC_NULL.
Request& no_proc_receive_request() noexcept;

/// A persistent request whose every start is done at once; `source` is what its status says.
Request& new_immediate_request(MPI_Comm comm, int source);

}  // namespace mpi_shim
