// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/p2p/arguments.hpp — the argument checks of point-to-point functions, and the return of a new request,
// also by collectives.  The objects live on the stack of the MPI function.
#pragma once
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/request/done_requests.hpp"

namespace mpi_shim::api {

/// The status of a receive from MPI_PROC_NULL.
inline constexpr Outcome kNoProcess{MPI_PROC_NULL, MPI_ANY_TAG, MPI_SUCCESS, 0, false};

/// When a new request starts: at once, or by MPI_Start (a persistent request).
enum class Start { now, later };

/// The arguments of one message, checked by `call`.
struct MessageArguments {
  comm::Communicator* comm;
  p2p::Buffer buffer;

  static MessageArguments of_send(Call& call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                  int tag, MPI_Comm handle) {
    MessageArguments arguments{call.comm(handle), call.buffer(buf, count, datatype, dest)};
    call.destination(arguments.comm, dest);
    call.send_tag(tag);
    return arguments;
  }
  static MessageArguments of_receive(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                                     MPI_Comm handle) {
    MessageArguments arguments{call.comm(handle), call.buffer(buf, count, datatype, source)};
    call.source(arguments.comm, source);
    call.receive_tag(tag);
    return arguments;
  }
};

/// Stores the handle of the new request `made` in *request: from here on the application owns it.  Start::now starts
/// it; Start::later makes it persistent.  `handle`: the communicator whose error handler gets its errors, or
/// MPI_COMM_NULL.  Returns MPI_SUCCESS.
inline int hand_over(Request& made, Start start, MPI_Comm handle, MPI_Request* request) {
  if (start == Start::later) {
    made.set_persistent(handle);
  } else {
    made.set_comm(handle);
    made.start();
  }
  *request = made.mpi_handle();
  return MPI_SUCCESS;
}

/// As hand_over(), for an operation with MPI_PROC_NULL.  `source`: that of its status, MPI_PROC_NULL
/// for a receive and MPI_ANY_SOURCE for a send.  Fails with MPI_ERR_NO_MEM.
inline int give_no_proc_request(Call& call, Start start, MPI_Comm handle, int source, MPI_Request* request) {
  Request* const made = start == Start::later     ? new_no_op_persistent_request(handle, source)
                        : source == MPI_PROC_NULL ? &no_proc_receive_request()
                                                  : &done_send_request();
  if (made == nullptr) call.fail_class(MPI_ERR_NO_MEM);
  *request = made->mpi_handle();
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
