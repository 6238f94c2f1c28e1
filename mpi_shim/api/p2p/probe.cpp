// SPDX-License-Identifier: Apache-2.0
// MPI_Probe, MPI_Mprobe, MPI_Mrecv and their non-blocking forms.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/request/done_requests.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

/// A message that MPI_Mprobe has removed from the unexpected queue.  Owned by the application's handle until MPI_Mrecv.
class MessageObject final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::message;
  MessageObject(std::unique_ptr<p2p::Unexpected> taken, p2p::Engine& of, p2p::Channel& from, MPI_Comm comm) noexcept
      : Object(kKind), message(std::move(taken)), engine(of), channel(from), comm_handle(comm) {
    const am::Lock::Guard guard{engine.lock()};
    ++channel.users;  // keeps the channel if the application frees the communicator before MPI_Mrecv
  }
  ~MessageObject() {
    const am::Lock::Guard guard{engine.lock()};
    --channel.users;
  }

  std::unique_ptr<p2p::Unexpected> message;
  p2p::Engine& engine;
  p2p::Channel& channel;
  const MPI_Comm comm_handle;
};

comm::Communicator* check(Call& call, MPI_Comm comm, int source, int tag) {
  comm::Communicator* const communicator = call.comm(comm);
  call.source(communicator, source);
  call.receive_tag(tag);
  return communicator;
}

enum class Probing { once, until_found };

/// Whether `try_probe()` finds a message from `source`.  Probing::until_found: waits for it; an error if no process is
/// left that could send it.
template <class TryProbe>
bool find(Call& call, comm::Communicator& comm, int source, Probing probing, TryProbe&& try_probe) {
  auto& engine = comm.engine();
  if (probing == Probing::once) {
    if (try_probe()) return true;
    engine.progress_or_yield();
    return try_probe();
  }
  bool found = false;
  engine.wait_until(
      [&] {
        const am::Lock::Guard guard{engine.lock()};
        found = found || try_probe();
        return found || engine.no_sender_left(comm.user(), source);
      },
      "for a message to probe");
  if (!found) {
    call.fail(MPI_ERR_PROC_ABORTED, "every process that such a message could come from has failed or ended");
  }
  return true;
}

/// MPI_Probe and MPI_Iprobe.
int probe(Call& call, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status, Probing probing) {
  comm::Communicator* const communicator = check(call, comm, source, tag);
  Outcome outcome = kNoProcess;
  const auto try_probe = [&] { return communicator->engine().probe(communicator->user(), source, tag, outcome); };
  *flag = source == MPI_PROC_NULL || find(call, *communicator, source, probing, try_probe);
  if (*flag != 0) store(outcome, status);
  return MPI_SUCCESS;
}

/// MPI_Mprobe and MPI_Improbe.
int matched_probe(Call& call, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* handle, MPI_Status* status,
                  Probing probing) {
  comm::Communicator* const communicator = check(call, comm, source, tag);
  if (source == MPI_PROC_NULL) {
    *flag = 1;
    *handle = MPI_MESSAGE_NO_PROC;
    store(kNoProcess, status);
    return MPI_SUCCESS;
  }
  auto& engine = communicator->engine();
  Outcome outcome;
  std::unique_ptr<p2p::Unexpected> message;
  const auto try_probe = [&] {
    message = engine.take(communicator->user(), source, tag, outcome);
    return message != nullptr;
  };
  *flag = find(call, *communicator, source, probing, try_probe);
  if (*flag == 0) return MPI_SUCCESS;
  auto object = handle::create<MessageObject>(std::move(message), engine, communicator->user(), comm);
  if (!object) call.fail_class(MPI_ERR_NO_MEM);
  *handle = handle::to_handle<MPI_Message>(*object->detach());
  store(outcome, status);
  return MPI_SUCCESS;
}

/// A started receive of the message; ends the message's handle.  Null: it is MPI_MESSAGE_NO_PROC.
p2p::Receive* start(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* handle) {
  const MPI_Message value = *handle;
  if (value == MPI_MESSAGE_NO_PROC) {
    *handle = MPI_MESSAGE_NULL;
    return nullptr;
  }
  auto* const message = call.find<MessageObject>(value, MPI_ERR_REQUEST, "message", "message");
  call.raise_errors_on(message->comm_handle);
  const p2p::Buffer buffer = call.buffer(buf, count, datatype);
  p2p::Receive& receive = message->engine.new_receive(message->channel, buffer, MPI_ANY_SOURCE, MPI_ANY_TAG);
  receive.set_comm(message->comm_handle);
  receive.start_matched(std::move(message->message));
  message->retire();
  *handle = MPI_MESSAGE_NULL;
  return &receive;
}

int matched_receive(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* handle,
                    MPI_Status* status) {
  p2p::Receive* const receive = start(call, buf, count, datatype, handle);
  Outcome outcome = kNoProcess;
  MPI_Comm comm = MPI_COMM_NULL;
  if (receive != nullptr) {
    receive->engine()->wait(*receive);
    outcome = receive->outcome();
    comm = receive->comm();
    receive->put_back();
  }
  store(outcome, status);
  return outcome.error == MPI_SUCCESS ? MPI_SUCCESS : call.raise_on(comm, outcome.error);
}

int start_matched_receive(Call& call, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* handle,
                          MPI_Request* request) {
  Request* const receive = start(call, buf, count, datatype, handle);
  *request = (receive != nullptr ? *receive : no_proc_receive_request()).mpi_handle();
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_CALL(Probe, (Call & call, int source, int tag, MPI_Comm comm, MPI_Status* status)) {
  int flag = 0;
  return probe(call, source, tag, comm, &flag, status, Probing::until_found);
}
OPAL_MPI_CALL(Mprobe, (Call & call, int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)) {
  int flag = 0;
  return matched_probe(call, source, tag, comm, &flag, message, status, Probing::until_found);
}
OPAL_MPI_FORWARD(Iprobe, probe, Probing::once)
OPAL_MPI_FORWARD(Improbe, matched_probe, Probing::once)
OPAL_MPI_FORWARD_BOTH(Mrecv, matched_receive)
OPAL_MPI_FORWARD_BOTH(Imrecv, start_matched_receive)

}  // namespace mpi_shim::api
