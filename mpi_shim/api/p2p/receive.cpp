// SPDX-License-Identifier: Apache-2.0
// MPI_Recv, MPI_Sendrecv, MPI_Sendrecv_replace and their non-blocking and persistent forms.
#include <memory>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/api/p2p/plain.hpp"
#include "mpi_shim/request/done_requests.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

int receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
            MPI_Comm handle, MPI_Status* status) {
  p2p::Burst::end_any();
  if (const PlainMessage plain{buf, count, datatype, source, tag, handle}) {
    const Outcome outcome = plain.engine().receive(plain.channel(), plain.buffer(), source, tag);
    store(outcome, status);
    return outcome.error == MPI_SUCCESS ? MPI_SUCCESS : Call{function}.raise_on(handle, outcome.error);
  }
  return Call::run(function, [&](Call& call) {
    const auto [comm, buffer] = MessageArguments::of_receive(call, buf, count, datatype, source, tag, handle);
    const Outcome outcome =
        source == MPI_PROC_NULL ? kNoProcess : comm->engine().receive(comm->user(), buffer, source, tag);
    store(outcome, status);
    return call.finish(outcome.error);
  });
}

int new_receive(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm handle,
                MPI_Request* request, Start start) {
  const auto [comm, buffer] = MessageArguments::of_receive(call, buf, count, datatype, source, tag, handle);
  call.pointer(request, "request");
  if (source == MPI_PROC_NULL) return give_no_proc_request(call, start, handle, MPI_PROC_NULL, request);
  return hand_over(comm->engine().new_receive(comm->user(), buffer, source, tag), start, handle, request);
}

[[gnu::always_inline]] inline int start_receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype,
                                                int source, int tag, MPI_Comm handle, MPI_Request* request) {
  const PlainMessage plain{buf, count, datatype, source, tag, handle};
  if (!plain || request == nullptr) {
    return Call::run(function, [&](Call& call) {
      return new_receive(call, buf, count, datatype, source, tag, handle, request, Start::now);
    });
  }
  return hand_over(plain.engine().new_receive(plain.channel(), plain.buffer(), source, tag), Start::now, handle,
                   request);
}

/// The checked arguments of MPI_Sendrecv and MPI_Sendrecv_replace.  The communicator is checked first, so that later
/// errors use its error handler.
struct SendrecvArguments {
  comm::Communicator* comm;
  p2p::Buffer out;
  int dest;
  int sendtag;
  p2p::Buffer in;
  int source;
  int recvtag;
  std::unique_ptr<std::byte[]> packed{};  ///< replace: the packed copy of the data to send

  void check(Call& call) const {
    call.destination(comm, dest);
    call.send_tag(sendtag, "sendtag");
    call.source(comm, source);
    call.receive_tag(recvtag, "recvtag");
  }
};

int run(Call& call, const SendrecvArguments& both, MPI_Status* status) {
  auto& engine = both.comm->engine();
  auto& channel = both.comm->user();
  Request* const receive =
      both.source == MPI_PROC_NULL ? nullptr : &engine.new_receive(channel, both.in, both.source, both.recvtag);
  if (receive != nullptr) receive->start();
  const int error = both.dest == MPI_PROC_NULL
                        ? MPI_SUCCESS
                        : engine.send(channel, both.out, both.dest, both.sendtag, p2p::Mode::standard);
  Outcome outcome = kNoProcess;
  if (receive != nullptr) {
    engine.wait(*receive);
    outcome = receive->outcome();
    receive->put_back();
  }
  store(outcome, status);
  return call.finish(error != MPI_SUCCESS ? error : outcome.error);
}

/// The request of MPI_Isendrecv: a send and a receive; its status is that of the receive.  Owned by the application's
/// handle; put_back() destroys it.
class SendReceive final : public Request {
 public:
  /// `send`, `receive`: null for MPI_PROC_NULL.  `packed`: the memory that the send reads, or null.
  SendReceive(p2p::Engine& engine, Request* send, Request* receive, std::unique_ptr<std::byte[]> packed) noexcept
      : Request(kActions, &engine), send_(send), receive_(receive), packed_(std::move(packed)) {}

 private:
  static const Actions kActions;
  void begin_both() noexcept {
    const am::Lock::Guard guard{engine()->lock()};
    begin();
    if (receive_ == nullptr) outcome_.source = MPI_PROC_NULL;
    pending_ = 1;  // a part that completes at once must not finish the request
    if (receive_ != nullptr) start_part(*receive_);
    if (send_ != nullptr) start_part(*send_);
    if (--pending_ == 0) finish();
  }
  void start_part(Request& part) noexcept {
    ++pending_;
    part.set_watcher(
        {[](void* self, Request& done) noexcept { static_cast<SendReceive*>(self)->part_done(done); }, this});
    part.start();
  }
  void part_done(Request& part) noexcept {
    const int earlier = outcome_.error;
    if (&part == receive_) {
      outcome_ = part.outcome();
    } else {
      outcome_.error = part.outcome().error;
    }
    if (outcome_.error == MPI_SUCCESS) outcome_.error = earlier;
    part.put_back();
    if (--pending_ == 0) finish();
  }

  Request* send_;
  Request* receive_;
  std::unique_ptr<std::byte[]> packed_;
  int pending_ = 0;
};

const Request::Actions SendReceive::kActions{act<&SendReceive::begin_both>, act<&Object::retire>};

int run(Call& call, SendrecvArguments both, MPI_Request* request) {
  call.pointer(request, "request");
  auto& engine = both.comm->engine();
  auto& channel = both.comm->user();
  Request* const send = both.dest == MPI_PROC_NULL
                            ? nullptr
                            : &engine.new_send(channel, both.out, both.dest, both.sendtag, p2p::Mode::standard);
  Request* const receive =
      both.source == MPI_PROC_NULL ? nullptr : &engine.new_receive(channel, both.in, both.source, both.recvtag);
  auto made = handle::create<SendReceive>(engine, send, receive, std::move(both.packed));
  if (!made) {
    if (send != nullptr) send->put_back();
    if (receive != nullptr) receive->put_back();
    call.fail_class(MPI_ERR_NO_MEM);
  }
  return hand_over(*made->detach(), Start::now, both.comm->mpi_handle(), request);  // put_back() destroys it
}

/// `Result`: MPI_Status, or MPI_Request for the non-blocking form.
template <class Result>
int sendrecv(Call& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm handle,
             Result* result) {
  SendrecvArguments both{call.comm(handle),
                         call.buffer(sendbuf, sendcount, sendtype, dest),
                         dest,
                         sendtag,
                         call.buffer(recvbuf, recvcount, recvtype, source),
                         source,
                         recvtag};
  both.check(call);
  return run(call, std::move(both), result);
}

/// `buf` is sent and then overwritten.  It is checked unless both partners are MPI_PROC_NULL.
template <class Result>
int sendrecv_replace(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source,
                     int recvtag, MPI_Comm handle, Result* result) {
  SendrecvArguments both{call.comm(handle),
                         {},
                         dest,
                         sendtag,
                         call.buffer(buf, count, datatype, source == MPI_PROC_NULL ? dest : source),
                         source,
                         recvtag};
  both.check(call);
  both.packed = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(both.in.bytes()));
  both.out = p2p::Buffer::of_bytes(both.packed.get(), both.in.bytes());
  copy(both.in, both.out);  // from `buf`
  return run(call, std::move(both), result);
}

}  // namespace

OPAL_MPI_FORWARD_FAST_BOTH(Recv, receive)
OPAL_MPI_FORWARD_FAST_BOTH(Irecv, start_receive)
OPAL_MPI_FORWARD_BOTH(Recv_init, new_receive, Start::later)
OPAL_MPI_FORWARD_BOTH(Sendrecv, sendrecv)
OPAL_MPI_FORWARD_BOTH(Sendrecv_replace, sendrecv_replace)
OPAL_MPI_FORWARD_BOTH(Isendrecv, sendrecv)
OPAL_MPI_FORWARD_BOTH(Isendrecv_replace, sendrecv_replace)

}  // namespace mpi_shim::api
