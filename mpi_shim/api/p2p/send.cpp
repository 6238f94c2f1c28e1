// SPDX-License-Identifier: Apache-2.0
// MPI_Send, MPI_Ssend, MPI_Rsend and their other forms.  A ready send is a standard send, as the standard allows.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/api/p2p/plain.hpp"
#include "mpi_shim/request/done_requests.hpp"

namespace mpi_shim::api {
namespace {

/// Sends a short plain message within the call.  False: it has sent nothing; the caller uses send_any() or
/// start_any().  `may_wait`: the message may join a burst, since another MPI function completes the send.
[[gnu::always_inline]] inline bool send_short(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                              int tag, MPI_Comm handle, p2p::Mode mode, bool may_wait) {
  if (mode != p2p::Mode::standard) return false;
  const PlainMessage plain{buf, count, datatype, dest, tag, handle};
  return plain && plain.engine().send_at_once(plain.channel(), plain.buffer(), dest, tag, may_wait);
}

int send_any(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
             MPI_Comm handle, p2p::Mode mode) {
  return Call::run(function, [&](Call& call) {
    const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
    if (dest == MPI_PROC_NULL) return MPI_SUCCESS;
    return call.finish(comm->engine().send(comm->user(), buffer, dest, tag, mode));
  });
}

/// MPI_Send, MPI_Ssend and MPI_Rsend.
[[gnu::always_inline]] inline int send(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype,
                                       int dest, int tag, MPI_Comm handle, p2p::Mode mode) {
  p2p::Burst::end_any();
  if (send_short(buf, count, datatype, dest, tag, handle, mode, false)) return MPI_SUCCESS;
  return send_any(function, buf, count, datatype, dest, tag, handle, mode);
}

int start_any(Call& call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm handle,
              MPI_Request* request, p2p::Mode mode, Start start) {
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  call.pointer(request, "request");
  if (dest == MPI_PROC_NULL) return give_no_proc_request(call, start, handle, MPI_ANY_SOURCE, request);
  if (start == Start::now && mode == p2p::Mode::standard &&
      comm->engine().send_at_once(comm->user(), buffer, dest, tag)) {
    return give_done_request(request);
  }
  Request& made = comm->engine().new_send(comm->user(), buffer, dest, tag, mode);
  return hand_over(made, start, handle, request);
}

/// MPI_Isend, MPI_Send_init, and those of the other modes.
[[gnu::always_inline]] inline int new_send(const char* function, const void* buf, MPI_Count count,
                                           MPI_Datatype datatype, int dest, int tag, MPI_Comm handle,
                                           MPI_Request* request, p2p::Mode mode, Start start) {
  if (start == Start::now && request != nullptr && send_short(buf, count, datatype, dest, tag, handle, mode, true)) {
    *request = done_send_request().mpi_handle();
    return MPI_SUCCESS;
  }
  return Call::run(function, [&](Call& call) {
    return start_any(call, buf, count, datatype, dest, tag, handle, request, mode, start);
  });
}

}  // namespace

OPAL_MPI_FORWARD_FAST_BOTH(Send, send, p2p::Mode::standard)
OPAL_MPI_FORWARD_FAST_BOTH(Ssend, send, p2p::Mode::synchronous)
OPAL_MPI_FORWARD_FAST_BOTH(Rsend, send, p2p::Mode::standard)

OPAL_MPI_FORWARD_FAST_BOTH(Isend, new_send, p2p::Mode::standard, Start::now)
OPAL_MPI_FORWARD_FAST_BOTH(Issend, new_send, p2p::Mode::synchronous, Start::now)
OPAL_MPI_FORWARD_FAST_BOTH(Irsend, new_send, p2p::Mode::standard, Start::now)
OPAL_MPI_FORWARD_FAST_BOTH(Send_init, new_send, p2p::Mode::standard, Start::later)
OPAL_MPI_FORWARD_FAST_BOTH(Ssend_init, new_send, p2p::Mode::synchronous, Start::later)
OPAL_MPI_FORWARD_FAST_BOTH(Rsend_init, new_send, p2p::Mode::standard, Start::later)

}  // namespace mpi_shim::api
