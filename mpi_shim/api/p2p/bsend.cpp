// SPDX-License-Identifier: Apache-2.0
// Buffered sends, and the buffers that the application attaches to the process or to a communicator.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/p2p/buffered/attached_buffer.hpp"
#include "mpi_shim/request/done_requests.hpp"

namespace mpi_shim::api {
namespace {

/// The request of MPI_Bsend_init: complete as soon as its message is copied.  Owned by the application's handle;
/// put_back() destroys it.
class BufferedSend final : public Request {
 public:
  /// `own`: the communicator's buffer, used if memory is attached to it at MPI_Start; `shared`: the process's buffer.
  BufferedSend(p2p::AttachedBuffer& own, p2p::AttachedBuffer& shared, p2p::Engine& engine, p2p::Channel& channel,
               const p2p::Buffer& message, int destination, int tag)
      : Request(kActions, &engine),
        own_(own),
        shared_(shared),
        channel_(channel),
        message_(message),
        destination_(destination),
        tag_(tag) {
    if (message.has_derived_type()) type_ = message.share_type();
    const am::Lock::Guard guard{engine.lock()};
    ++channel_.users;
  }

 private:
  static const Actions kActions;
  void send() noexcept {
    begin();
    outcome_.error = (own_.attached() ? own_ : shared_).send(*engine(), channel_, message_, destination_, tag_);
    finish();
  }
  void put_away() noexcept {
    {
      const am::Lock::Guard guard{engine()->lock()};
      --channel_.users;
    }
    retire();
  }

  p2p::AttachedBuffer& own_;
  p2p::AttachedBuffer& shared_;
  p2p::Channel& channel_;
  const p2p::Buffer message_;
  datatype::DatatypeRef type_;
  const int destination_;
  const int tag_;
};

const Request::Actions BufferedSend::kActions{act<&BufferedSend::send>, act<&BufferedSend::put_away>};

/// MPI_Bsend; with `request` MPI_Ibsend, whose request is complete at once, since the message is copied.
int bsend(Call& call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm handle,
          MPI_Request* request = nullptr) {
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  if (dest != MPI_PROC_NULL) {
    p2p::AttachedBuffer& memory = comm->buffer.attached() ? comm->buffer : call.process().buffer();
    const int error = memory.send(comm->engine(), comm->user(), buffer, dest, tag);
    if (error == MPI_ERR_BUFFER) {
      call.fail(error, memory.attached() ? "the attached buffer has no room for the message"
                                         : "no buffer is attached for buffered sends");
    }
    call.finish(error);
  }
  return give_done_request(request);
}

int bsend_init(Call& call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm handle,
               MPI_Request* request) {
  const auto [comm, buffer] = MessageArguments::of_send(call, buf, count, datatype, dest, tag, handle);
  if (dest == MPI_PROC_NULL) return give_no_proc_request(call, Start::later, handle, MPI_ANY_SOURCE, request);
  auto made = handle::create<BufferedSend>(comm->buffer, call.process().buffer(), comm->engine(), comm->user(), buffer,
                                           dest, tag);
  if (!made) call.fail_class(MPI_ERR_NO_MEM);
  return hand_over(*made->detach(), Start::later, handle, request);  // put_back() destroys it
}

/// The buffer of a communicator, or of the process if `comm` is null.
p2p::AttachedBuffer* find(Call& call, const MPI_Comm* comm) {
  return comm == nullptr ? &call.process().buffer() : &call.comm(*comm)->buffer;
}

int attach(Call& call, void* memory, MPI_Count size, const MPI_Comm* comm = nullptr) {
  p2p::AttachedBuffer* const buffer = find(call, comm);
  if (size < 0) call.fail_count(size, "size");
  if (size > 0) call.pointer(memory, "buffer");
  if (!buffer->attach(memory, static_cast<std::uint64_t>(size))) {
    call.fail(MPI_ERR_BUFFER, "a buffer is attached already");
  }
  return MPI_SUCCESS;
}
int attach_to(Call& call, MPI_Comm comm, void* memory, MPI_Count size) { return attach(call, memory, size, &comm); }

template <class Count>
int detach(Call& call, void* address, Count* size, const MPI_Comm* comm = nullptr) {
  p2p::AttachedBuffer* const buffer = find(call, comm);
  call.pointer(address, "buffer_addr");
  const auto memory = buffer->detach();
  if (!memory) call.fail(MPI_ERR_BUFFER, "no buffer is attached");
  *static_cast<void**>(address) = memory->base;
  *size = narrowed<Count>(static_cast<MPI_Count>(memory->size));
  return MPI_SUCCESS;
}
template <class Count>
int detach_from(Call& call, MPI_Comm comm, void* address, Count* size) {
  return detach(call, address, size, &comm);
}

int flush(Call& call, const MPI_Comm* comm = nullptr) {
  find(call, comm)->flush();
  return MPI_SUCCESS;
}
int flush_of(Call& call, MPI_Comm comm) { return flush(call, &comm); }

int iflush(Call& call, MPI_Request* request, const MPI_Comm* comm = nullptr) {
  const auto started = find(call, comm)->start_flush();
  if (!started) call.fail_class(MPI_ERR_NO_MEM);
  *request = (*started)->mpi_handle();
  return MPI_SUCCESS;
}
int iflush_of(Call& call, MPI_Comm comm, MPI_Request* request) { return iflush(call, request, &comm); }

}  // namespace

OPAL_MPI_FORWARD_BOTH(Bsend, bsend)
OPAL_MPI_FORWARD_BOTH(Ibsend, bsend)
OPAL_MPI_FORWARD_BOTH(Bsend_init, bsend_init)
OPAL_MPI_FORWARD_BOTH(Buffer_attach, attach)
OPAL_MPI_FORWARD_BOTH(Comm_attach_buffer, attach_to)
OPAL_MPI_FORWARD_BOTH(Buffer_detach, detach)
OPAL_MPI_FORWARD_BOTH(Comm_detach_buffer, detach_from)
OPAL_MPI_FORWARD(Buffer_flush, flush)
OPAL_MPI_FORWARD(Comm_flush_buffer, flush_of)
OPAL_MPI_FORWARD(Buffer_iflush, iflush)
OPAL_MPI_FORWARD(Comm_iflush_buffer, iflush_of)

}  // namespace mpi_shim::api
