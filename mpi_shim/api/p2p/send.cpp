// SPDX-License-Identifier: Apache-2.0
// Sending: MPI_Send and its relations.  A ready send is a standard send, as the standard allows.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/api/p2p/plain.hpp"
#include "mpi_shim/request/immediate.hpp"

using mpi_shim::Request;
using mpi_shim::api::Call;
using mpi_shim::api::MessageArguments;
using mpi_shim::api::PlainMessage;
using mpi_shim::api::Start;
using mpi_shim::p2p::Mode;

namespace {

/// Sends a short plain message now; false: nothing has been done.
[[gnu::always_inline]] inline bool send_short(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                              int tag, MPI_Comm handle, Mode mode) {
  if (mode != Mode::standard) return false;
  const PlainMessage plain{buf, count, datatype, dest, tag, handle};
  return plain && plain.engine().send_at_once(plain.channel(), plain.buffer(), dest, tag);
}

int send(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
         MPI_Comm handle, Mode mode) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  if (call.failed()) [[unlikely]]
    return call.error();
  if (dest == MPI_PROC_NULL) return MPI_SUCCESS;
  return call.finish(comm->engine().send(comm->user(), buffer, dest, tag, mode));
}

/// As send_short(), with a request that is done.
[[gnu::always_inline]] inline bool start_short(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                               int tag, MPI_Comm handle, Mode mode, Start start, MPI_Request* request) {
  if (start != Start::now || request == nullptr) return false;
  if (!send_short(buf, count, datatype, dest, tag, handle, mode)) return false;
  *request = mpi_shim::done_send_request().mpi_handle();
  return true;
}

/// A new request; `later`: a persistent one.
int new_send(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
             MPI_Comm handle, Mode mode, Start start, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  call.pointer(request, "request");
  if (call.failed()) [[unlikely]]
    return call.error();
  if (dest == MPI_PROC_NULL) {
    *request = (start == Start::later ? mpi_shim::new_immediate_request(handle, MPI_ANY_SOURCE)
                                      : mpi_shim::done_send_request())
                   .mpi_handle();
    return MPI_SUCCESS;
  }
  if (start == Start::now && mode == Mode::standard && comm->engine().send_at_once(comm->user(), buffer, dest, tag)) {
    *request = mpi_shim::done_send_request().mpi_handle();
    return MPI_SUCCESS;
  }
  Request& made = comm->engine().new_send(comm->user(), buffer, dest, tag, mode);
  return hand_over(made, start, handle, request);
}

}  // namespace

#define OPAL_MPI_SEND(name, mode)                                                                                  \
  OPAL_MPI_FUNCTION(int, name,                                                                                     \
                    (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)) {       \
    if (send_short(buf, count, datatype, dest, tag, comm, mode)) return MPI_SUCCESS;                               \
    return send("MPI_" #name, buf, count, datatype, dest, tag, comm, mode);                                        \
  }                                                                                                                \
  OPAL_MPI_FUNCTION(int, name##_c,                                                                                 \
                    (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)) { \
    if (send_short(buf, count, datatype, dest, tag, comm, mode)) return MPI_SUCCESS;                               \
    return send("MPI_" #name "_c", buf, count, datatype, dest, tag, comm, mode);                                   \
  }

OPAL_MPI_SEND(Send, Mode::standard)
OPAL_MPI_SEND(Ssend, Mode::synchronous)
OPAL_MPI_SEND(Rsend, Mode::standard)

#define OPAL_MPI_NEW_SEND(name, mode, start)                                                                         \
  OPAL_MPI_FUNCTION(                                                                                                 \
      int, name,                                                                                                     \
      (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request)) { \
    if (start_short(buf, count, datatype, dest, tag, comm, mode, start, request)) return MPI_SUCCESS;                \
    return new_send("MPI_" #name, buf, count, datatype, dest, tag, comm, mode, start, request);                      \
  }                                                                                                                  \
  OPAL_MPI_FUNCTION(int, name##_c,                                                                                   \
                    (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,      \
                     MPI_Request* request)) {                                                                        \
    if (start_short(buf, count, datatype, dest, tag, comm, mode, start, request)) return MPI_SUCCESS;                \
    return new_send("MPI_" #name "_c", buf, count, datatype, dest, tag, comm, mode, start, request);                 \
  }

OPAL_MPI_NEW_SEND(Isend, Mode::standard, Start::now)
OPAL_MPI_NEW_SEND(Issend, Mode::synchronous, Start::now)
OPAL_MPI_NEW_SEND(Irsend, Mode::standard, Start::now)
OPAL_MPI_NEW_SEND(Send_init, Mode::standard, Start::later)
OPAL_MPI_NEW_SEND(Ssend_init, Mode::synchronous, Start::later)
OPAL_MPI_NEW_SEND(Rsend_init, Mode::standard, Start::later)
