// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/p2p/arguments.hpp — what the functions of point-to-point messages have in common: the checks of their
// arguments, and the request that a non-blocking or persistent one returns.  Values on the stack of the call.
#pragma once
#include "mpi_shim/api/call.hpp"

namespace mpi_shim::api {

/// The status of a receive from MPI_PROC_NULL.
inline constexpr Outcome kNoProcess{MPI_PROC_NULL, MPI_ANY_TAG, MPI_SUCCESS, 0, false};

/// When a new request starts: at once, or by MPI_Start (a persistent request).
enum class Start { now, later };

/// The checked arguments of one message.
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

/// Hands a new request to the program, and starts it unless it is persistent.  Returns MPI_SUCCESS.
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

}  // namespace mpi_shim::api
