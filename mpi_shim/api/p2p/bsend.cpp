// SPDX-License-Identifier: Apache-2.0
// Buffered sends and the memory for them, of the process and of communicators.
#include <limits>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/p2p/buffered/buffered_send.hpp"
#include "mpi_shim/request/immediate.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::MessageArguments;
using mpi_shim::comm::Communicator;
using mpi_shim::p2p::AttachedBuffer;
using mpi_shim::p2p::Buffer;
using mpi_shim::p2p::BufferedSend;

/// One buffered send; `request`: of an immediate one, which is done when the message is copied.
int bsend(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm handle, MPI_Request* request = nullptr) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  if (call.failed()) return call.error();
  if (dest != MPI_PROC_NULL) {
    AttachedBuffer& memory = comm->buffer.attached() ? comm->buffer : call.process().buffer();
    const int error = memory.send(comm->engine(), comm->user(), buffer, dest, tag);
    if (error == MPI_ERR_BUFFER) {
      return call.fail(error, memory.attached() ? "the attached buffer has no room for the message"
                                                : "no buffer is attached for buffered sends");
    }
    if (error != MPI_SUCCESS) return call.fail_class(error);
  }
  if (request != nullptr) *request = mpi_shim::done_send_request().mpi_handle();
  return MPI_SUCCESS;
}

int ibsend(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm handle, MPI_Request* request) {
  if (request == nullptr) {
    Call call{function};
    call.pointer(request, "request");
    return call.error();
  }
  return bsend(function, buf, count, datatype, dest, tag, handle, request);
}

int bsend_init(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
               MPI_Comm handle, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  call.pointer(request, "request");
  if (call.failed()) return call.error();
  if (dest == MPI_PROC_NULL) {
    *request = mpi_shim::new_immediate_request(handle, MPI_ANY_SOURCE).mpi_handle();
    return MPI_SUCCESS;
  }
  auto made = mpi_shim::handle::create<BufferedSend>(comm->buffer, call.process().buffer(), comm->engine(),
                                                     comm->user(), buffer, dest, tag);
  if (!made) return call.finish(MPI_ERR_NO_MEM);
  BufferedSend& send = *made->detach();  // the program's; ends with put_back()
  send.set_persistent(handle);
  *request = send.mpi_handle();
  return MPI_SUCCESS;
}

/// The buffer of a communicator, or of the process (no `comm`).
AttachedBuffer* find(Call& call, const MPI_Comm* comm) {
  if (call.failed()) return nullptr;
  if (comm == nullptr) return &call.process().buffer();
  Communicator* const communicator = call.comm(*comm);
  return communicator != nullptr ? &communicator->buffer : nullptr;
}

int attach(const char* function, const MPI_Comm* comm, void* memory, MPI_Count size) {
  Call call{function};
  AttachedBuffer* const buffer = find(call, comm);
  if (size < 0) call.fail_count(size);
  if (size > 0) call.pointer(memory, "buffer");
  if (call.failed()) return call.error();
  if (!buffer->attach(memory, static_cast<std::uint64_t>(size))) {
    return call.fail(MPI_ERR_BUFFER, "a buffer is attached already");
  }
  return MPI_SUCCESS;
}

template <class Count>
int detach(const char* function, const MPI_Comm* comm, void* address, Count* size, MPI_Count largest) {
  Call call{function};
  AttachedBuffer* const buffer = find(call, comm);
  call.pointer(address, "buffer_addr");
  call.pointer(size, "size");
  if (call.failed()) return call.error();
  if (!buffer->attached()) return call.fail(MPI_ERR_BUFFER, "no buffer is attached");
  const AttachedBuffer::Memory memory = buffer->detach();
  *static_cast<void**>(address) = memory.base;
  const auto bytes = static_cast<MPI_Count>(memory.size);
  *size = static_cast<Count>(bytes > largest ? MPI_UNDEFINED : bytes);
  return MPI_SUCCESS;
}

int flush(const char* function, const MPI_Comm* comm) {
  Call call{function};
  AttachedBuffer* const buffer = find(call, comm);
  if (call.failed()) return call.error();
  buffer->flush();
  return MPI_SUCCESS;
}

int iflush(const char* function, const MPI_Comm* comm, MPI_Request* request) {
  Call call{function};
  AttachedBuffer* const buffer = find(call, comm);
  call.pointer(request, "request");
  if (call.failed()) return call.error();
  const auto started = buffer->start_flush();
  if (!started) return call.finish(MPI_ERR_NO_MEM);
  *request = (*started)->mpi_handle();
  return MPI_SUCCESS;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define OPAL_MPI_BSEND(name, Count)                                                                                    \
  OPAL_MPI_FUNCTION(int, Bsend##name,                                                                                  \
                    (const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)) {         \
    return bsend("MPI_Bsend" #name, buf, count, datatype, dest, tag, comm);                                            \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(                                                                                                   \
      int, Ibsend##name,                                                                                               \
      (const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request)) { \
    return ibsend("MPI_Ibsend" #name, buf, count, datatype, dest, tag, comm, request);                                 \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(                                                                                                   \
      int, Bsend_init##name,                                                                                           \
      (const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request)) { \
    return bsend_init("MPI_Bsend_init" #name, buf, count, datatype, dest, tag, comm, request);                         \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Buffer_attach##name, (void* buffer, Count size)) {                                            \
    return attach("MPI_Buffer_attach" #name, nullptr, buffer, size);                                                   \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Comm_attach_buffer##name, (MPI_Comm comm, void* buffer, Count size)) {                        \
    return attach("MPI_Comm_attach_buffer" #name, &comm, buffer, size);                                                \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Buffer_detach##name, (void* buffer_addr, Count* size)) {                                      \
    return detach("MPI_Buffer_detach" #name, nullptr, buffer_addr, size, std::numeric_limits<Count>::max());           \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Comm_detach_buffer##name, (MPI_Comm comm, void* buffer_addr, Count* size)) {                  \
    return detach("MPI_Comm_detach_buffer" #name, &comm, buffer_addr, size, std::numeric_limits<Count>::max());        \
  }
// NOLINTEND(bugprone-macro-parentheses)
OPAL_MPI_BSEND(, int)
OPAL_MPI_BSEND(_c, MPI_Count)

OPAL_MPI_FUNCTION(int, Buffer_flush, (void)) { return flush("MPI_Buffer_flush", nullptr); }
OPAL_MPI_FUNCTION(int, Comm_flush_buffer, (MPI_Comm comm)) { return flush("MPI_Comm_flush_buffer", &comm); }
OPAL_MPI_FUNCTION(int, Buffer_iflush, (MPI_Request * request)) { return iflush("MPI_Buffer_iflush", nullptr, request); }
OPAL_MPI_FUNCTION(int, Comm_iflush_buffer, (MPI_Comm comm, MPI_Request* request)) {
  return iflush("MPI_Comm_iflush_buffer", &comm, request);
}
