// SPDX-License-Identifier: Apache-2.0
// Receiving, and sending and receiving in one call.
#include <memory>
#include <vector>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/api/p2p/plain.hpp"
#include "mpi_shim/p2p/send_receive.hpp"
#include "mpi_shim/request/immediate.hpp"
#include "mpi_shim/request/status.hpp"

namespace {

using mpi_shim::Outcome;
using mpi_shim::Request;
using mpi_shim::api::Call;
using mpi_shim::api::kNoProcess;
using mpi_shim::api::MessageArguments;
using mpi_shim::api::PlainMessage;
using mpi_shim::api::Start;
using mpi_shim::comm::Communicator;
using mpi_shim::p2p::Buffer;
using mpi_shim::p2p::Mode;
using mpi_shim::p2p::SendReceive;

int receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
            MPI_Comm handle, MPI_Status* status) {
  if (const PlainMessage plain{buf, count, datatype, source, tag, handle}) {
    const Outcome outcome = plain.engine().receive(plain.channel(), plain.buffer(), source, tag);
    store(outcome, status);
    return outcome.error == MPI_SUCCESS ? MPI_SUCCESS : Call{function}.fail_on(handle, outcome.error);
  }
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, buffer] = MessageArguments::of_receive(call, buf, count, datatype, source, tag, handle);
  if (call.failed()) [[unlikely]]
    return call.error();
  if (source == MPI_PROC_NULL) {
    store(kNoProcess, status);
    return MPI_SUCCESS;
  }
  const Outcome outcome = comm->engine().receive(comm->user(), buffer, source, tag);
  store(outcome, status);
  return call.finish(outcome.error);
}

/// Starts to receive a plain message; false: nothing has been done.
[[gnu::always_inline]] inline bool start_plain(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                                               MPI_Comm handle, MPI_Request* request) {
  const PlainMessage plain{buf, count, datatype, source, tag, handle};
  if (!plain || request == nullptr) return false;
  Request& made = plain.engine().new_receive(plain.channel(), plain.buffer(), source, tag);
  made.set_comm(handle);
  made.start();
  *request = made.mpi_handle();
  return true;
}

int new_receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                MPI_Comm handle, Start start, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, buffer] = MessageArguments::of_receive(call, buf, count, datatype, source, tag, handle);
  call.pointer(request, "request");
  if (call.failed()) [[unlikely]]
    return call.error();
  if (source == MPI_PROC_NULL) {
    *request = (start == Start::later ? mpi_shim::new_immediate_request(handle, MPI_PROC_NULL)
                                      : mpi_shim::no_proc_receive_request())
                   .mpi_handle();
    return MPI_SUCCESS;
  }
  Request& made = comm->engine().new_receive(comm->user(), buffer, source, tag);
  return hand_over(made, start, handle, request);
}

int exchange(Call& call, Communicator& comm, const Buffer& out, int dest, int sendtag, const Buffer& in, int source,
             int recvtag, MPI_Status* status) {
  auto& engine = comm.engine();
  Outcome outcome = kNoProcess;
  if (source == MPI_PROC_NULL) {
    const int error =
        dest == MPI_PROC_NULL ? MPI_SUCCESS : engine.send(comm.user(), out, dest, sendtag, Mode::standard);
    store(outcome, status);
    return call.finish(error);
  }
  Request& receive = engine.new_receive(comm.user(), in, source, recvtag);
  receive.start();
  const int error = dest == MPI_PROC_NULL ? MPI_SUCCESS : engine.send(comm.user(), out, dest, sendtag, Mode::standard);
  engine.wait(receive);
  outcome = receive.outcome();
  receive.put_back();
  store(outcome, status);
  return call.finish(error != MPI_SUCCESS ? error : outcome.error);
}

/// What all forms that send and receive ask of their arguments.
void check_partners(Call& call, const Communicator* comm, int dest, int sendtag, int source, int recvtag) {
  call.destination(comm, dest);
  call.send_tag(sendtag);
  call.source(comm, source);
  call.receive_tag(recvtag);
}

/// The communicator and the buffer of the forms that replace what they send.  The buffer counts for both directions:
/// MPI_PROC_NULL on one side leaves it to the other.
MessageArguments replace_arguments(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                                   int source, int recvtag, MPI_Comm handle) {
  MessageArguments arguments{call.comm(handle),
                             call.buffer(buf, count, datatype, source == MPI_PROC_NULL ? dest : source)};
  check_partners(call, arguments.comm, dest, sendtag, source, recvtag);
  return arguments;
}

int sendrecv(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
             int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag,
             MPI_Comm handle, MPI_Status* status) {
  Call call{function};
  if (call.failed()) return call.error();
  Communicator* const comm = call.comm(handle);
  const Buffer out = call.buffer(sendbuf, sendcount, sendtype, dest);
  const Buffer in = call.buffer(recvbuf, recvcount, recvtype, source);
  check_partners(call, comm, dest, sendtag, source, recvtag);
  if (call.failed()) [[unlikely]]
    return call.error();
  return exchange(call, *comm, out, dest, sendtag, in, source, recvtag, status);
}

int sendrecv_replace(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                     int source, int recvtag, MPI_Comm handle, MPI_Status* status) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, in] = replace_arguments(call, buf, count, datatype, dest, sendtag, source, recvtag, handle);
  if (call.failed()) [[unlikely]]
    return call.error();
  std::vector<std::byte> packed(static_cast<std::size_t>(in.bytes()));
  const Buffer out = Buffer::of_bytes(packed.data(), packed.size());
  copy(in, out);
  return exchange(call, *comm, out, dest, sendtag, in, source, recvtag, status);
}

/// The request of both; `packed` holds what is sent if it is not where the program has it.
int start_both(Call& call, Communicator& comm, const Buffer& out, int dest, int sendtag, const Buffer& in, int source,
               int recvtag, std::unique_ptr<std::byte[]> packed, MPI_Request* request) {
  auto& engine = comm.engine();
  Request* const send =
      dest == MPI_PROC_NULL ? nullptr : &engine.new_send(comm.user(), out, dest, sendtag, Mode::standard);
  Request* const receive = source == MPI_PROC_NULL ? nullptr : &engine.new_receive(comm.user(), in, source, recvtag);
  auto made = mpi_shim::handle::create<SendReceive>(engine, send, receive, std::move(packed));
  if (!made) return call.finish(MPI_ERR_NO_MEM);
  Request& both = *made->detach();  // the program's; ends with put_back()
  both.set_comm(comm.mpi_handle());
  both.start();
  *request = both.mpi_handle();
  return MPI_SUCCESS;
}

int isendrecv(const char* function, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
              int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag,
              MPI_Comm handle, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  Communicator* const comm = call.comm(handle);
  const Buffer out = call.buffer(sendbuf, sendcount, sendtype, dest);
  const Buffer in = call.buffer(recvbuf, recvcount, recvtype, source);
  check_partners(call, comm, dest, sendtag, source, recvtag);
  call.pointer(request, "request");
  if (call.failed()) return call.error();
  return start_both(call, *comm, out, dest, sendtag, in, source, recvtag, nullptr, request);
}

int isendrecv_replace(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                      int source, int recvtag, MPI_Comm handle, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, in] = replace_arguments(call, buf, count, datatype, dest, sendtag, source, recvtag, handle);
  call.pointer(request, "request");
  if (call.failed()) return call.error();
  auto packed = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(in.bytes()));
  const Buffer out = Buffer::of_bytes(packed.get(), in.bytes());
  copy(in, out);
  return start_both(call, *comm, out, dest, sendtag, in, source, recvtag, std::move(packed), request);
}

}  // namespace

OPAL_MPI_FUNCTION(int, Recv,
                  (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Status* status)) {
  return receive("MPI_Recv", buf, count, datatype, source, tag, comm, status);
}
OPAL_MPI_FUNCTION(int, Recv_c,
                  (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Status* status)) {
  return receive("MPI_Recv_c", buf, count, datatype, source, tag, comm, status);
}

OPAL_MPI_FUNCTION(int, Irecv,
                  (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Request* request)) {
  if (start_plain(buf, count, datatype, source, tag, comm, request)) return MPI_SUCCESS;
  return new_receive("MPI_Irecv", buf, count, datatype, source, tag, comm, Start::now, request);
}
OPAL_MPI_FUNCTION(int, Irecv_c,
                  (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Request* request)) {
  if (start_plain(buf, count, datatype, source, tag, comm, request)) return MPI_SUCCESS;
  return new_receive("MPI_Irecv_c", buf, count, datatype, source, tag, comm, Start::now, request);
}
OPAL_MPI_FUNCTION(int, Recv_init,
                  (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Request* request)) {
  return new_receive("MPI_Recv_init", buf, count, datatype, source, tag, comm, Start::later, request);
}
OPAL_MPI_FUNCTION(int, Recv_init_c,
                  (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Request* request)) {
  return new_receive("MPI_Recv_init_c", buf, count, datatype, source, tag, comm, Start::later, request);
}

OPAL_MPI_FUNCTION(int, Sendrecv,
                  (const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
                   int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status)) {
  return sendrecv("MPI_Sendrecv", sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                  recvtag, comm, status);
}
OPAL_MPI_FUNCTION(int, Sendrecv_c,
                  (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                   void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                   MPI_Status* status)) {
  return sendrecv("MPI_Sendrecv_c", sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                  recvtag, comm, status);
}
OPAL_MPI_FUNCTION(int, Sendrecv_replace,
                  (void* buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
                   MPI_Comm comm, MPI_Status* status)) {
  return sendrecv_replace("MPI_Sendrecv_replace", buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
}
OPAL_MPI_FUNCTION(int, Sendrecv_replace_c,
                  (void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
                   MPI_Comm comm, MPI_Status* status)) {
  return sendrecv_replace("MPI_Sendrecv_replace_c", buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
}

#define OPAL_MPI_ISENDRECV(name, Count)                                                                                \
  OPAL_MPI_FUNCTION(                                                                                                   \
      int, Isendrecv##name,                                                                                            \
      (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,              \
       Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request* request)) {        \
    return isendrecv("MPI_Isendrecv" #name, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, \
                     source, recvtag, comm, request);                                                                  \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Isendrecv_replace##name,                                                                      \
                    (void* buf, Count count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,    \
                     MPI_Comm comm, MPI_Request* request)) {                                                           \
    return isendrecv_replace("MPI_Isendrecv_replace" #name, buf, count, datatype, dest, sendtag, source, recvtag,      \
                             comm, request);                                                                           \
  }
OPAL_MPI_ISENDRECV(, int)
OPAL_MPI_ISENDRECV(_c, MPI_Count)
