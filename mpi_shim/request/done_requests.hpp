// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/done_requests.hpp — requests of operations that are done when they start: sends that send_at_once()
// has sent, and all operations with MPI_PROC_NULL.  All operations that are not persistent share two requests, which
// are never written after their creation and never freed.  Threads: any.
#pragma once
#include "mpi_shim/request/request.hpp"

namespace mpi_shim {

/// The shared request of sends that are done.
Request& done_send_request() noexcept;
/// Stores its handle at `request` unless that is null.  Returns MPI_SUCCESS.
int give_done_request(MPI_Request* request) noexcept;
/// The shared request of receives from MPI_PROC_NULL.
Request& no_proc_receive_request() noexcept;

/// A new persistent request that is done at each start, with `source` in its status; put_back() destroys it.  Null: no
/// memory is left.
Request* new_no_op_persistent_request(MPI_Comm comm, int source);

}  // namespace mpi_shim
