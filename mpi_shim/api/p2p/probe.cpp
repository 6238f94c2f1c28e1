// SPDX-License-Identifier: Apache-2.0
// Probing, and receiving what a probe has taken out of matching.
#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/p2p/message.hpp"
#include "mpi_shim/request/immediate.hpp"
#include "mpi_shim/request/status.hpp"

namespace {

using mpi_shim::Outcome;
using mpi_shim::api::Call;
using mpi_shim::api::kNoProcess;
using mpi_shim::comm::Communicator;
using mpi_shim::p2p::Buffer;
using mpi_shim::p2p::MessageObject;
using mpi_shim::p2p::Receive;
using mpi_shim::p2p::Unexpected;

Communicator* check(Call& call, MPI_Comm comm, int source, int tag) {
  Communicator* const communicator = call.comm(comm);
  call.source(communicator, source);
  call.receive_tag(tag);
  return communicator;
}

enum class Probing { once, until_found };

constexpr const char* kNoSender = "every process that such a message could come from has failed or ended";

/// Waits until there is a message, and describes it; false: there will be none.
bool wait_for_message(Communicator& comm, int source, int tag, Outcome& outcome) {
  auto& engine = comm.engine();
  bool found = false;
  engine.wait_until(
      [&] {
        const mpi_shim::am::Lock::Guard guard{engine.lock()};
        found = engine.probe(comm.user(), source, tag, outcome);
        return found || engine.no_sender_left(comm.user(), source);
      },
      "for a message to probe");
  return found;
}

/// MPI_Probe and MPI_Iprobe.
int probe(const char* function, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status, Probing probing) {
  Call call{function};
  Communicator* const communicator = check(call, comm, source, tag);
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  Outcome outcome = kNoProcess;
  *flag = 1;
  if (source != MPI_PROC_NULL) {
    auto& engine = communicator->engine();
    const auto try_probe = [&] { return engine.probe(communicator->user(), source, tag, outcome); };
    if (probing == Probing::until_found) {
      if (!wait_for_message(*communicator, source, tag, outcome)) return call.fail(MPI_ERR_PROC_ABORTED, kNoSender);
    } else if (!try_probe()) {
      engine.poll();
      *flag = try_probe();
    }
  }
  if (*flag != 0) store(outcome, status);
  return MPI_SUCCESS;
}

/// MPI_Mprobe and MPI_Improbe.
int matched_probe(const char* function, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* handle,
                  MPI_Status* status, Probing probing) {
  Call call{function};
  Communicator* const communicator = check(call, comm, source, tag);
  call.pointer(flag, "flag");
  call.pointer(handle, "message");
  if (call.failed()) return call.error();
  *flag = 1;
  if (source == MPI_PROC_NULL) {
    *handle = MPI_MESSAGE_NO_PROC;
    store(kNoProcess, status);
    return MPI_SUCCESS;
  }
  auto& engine = communicator->engine();
  Outcome outcome;
  std::unique_ptr<Unexpected> message;
  const auto try_probe = [&] {
    message = engine.take(communicator->user(), source, tag, outcome);
    return message != nullptr;
  };
  if (probing == Probing::until_found) {
    while (!try_probe()) {
      if (!wait_for_message(*communicator, source, tag, outcome)) return call.fail(MPI_ERR_PROC_ABORTED, kNoSender);
    }
  } else if (!try_probe()) {
    engine.poll();
    if (!try_probe()) {
      *flag = 0;
      return MPI_SUCCESS;
    }
  }
  auto object = mpi_shim::handle::create<MessageObject>(std::move(message), engine, communicator->user(), comm);
  if (!object) return call.finish(MPI_ERR_NO_MEM);
  *handle = mpi_shim::handle::to_handle<MPI_Message>(*object->detach());
  store(outcome, status);
  return MPI_SUCCESS;
}

MessageObject* find_message(Call& call, const MPI_Message* handle) {
  call.pointer(handle, "message");
  if (call.failed()) return nullptr;
  auto* message = mpi_shim::handle::find<MessageObject>(*handle);
  if (message == nullptr) call.fail(MPI_ERR_REQUEST, "argument message is not a valid message");
  return message;
}

/// A request that has the message; the handle is gone.
Receive& start(MessageObject& message, const Buffer& buffer, MPI_Message* handle) {
  Receive& receive = message.engine.new_receive(message.channel, buffer, MPI_ANY_SOURCE, MPI_ANY_TAG);
  receive.set_comm(message.comm_handle);
  receive.start_matched(std::move(message.message));
  message.retire();
  *handle = MPI_MESSAGE_NULL;
  return receive;
}

int matched_receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* handle,
                    MPI_Status* status) {
  Call call{function};
  if (handle != nullptr && *handle == MPI_MESSAGE_NO_PROC) {
    *handle = MPI_MESSAGE_NULL;
    store(kNoProcess, status);
    return MPI_SUCCESS;
  }
  MessageObject* const message = find_message(call, handle);
  const Buffer buffer = call.buffer(buf, count, datatype);
  if (call.failed()) return call.error();
  const MPI_Comm comm = message->comm_handle;
  Receive& receive = start(*message, buffer, handle);
  receive.engine()->wait(receive);
  const Outcome outcome = receive.outcome();
  receive.put_back();
  store(outcome, status);
  return outcome.error == MPI_SUCCESS ? MPI_SUCCESS : call.fail_on(comm, outcome.error);
}

int start_matched_receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* handle,
                          MPI_Request* request) {
  Call call{function};
  call.pointer(request, "request");
  if (call.failed()) return call.error();
  if (handle != nullptr && *handle == MPI_MESSAGE_NO_PROC) {
    *handle = MPI_MESSAGE_NULL;
    *request = mpi_shim::no_proc_receive_request().mpi_handle();
    return MPI_SUCCESS;
  }
  MessageObject* const message = find_message(call, handle);
  const Buffer buffer = call.buffer(buf, count, datatype);
  if (call.failed()) return call.error();
  *request = start(*message, buffer, handle).mpi_handle();
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FUNCTION(int, Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status)) {
  int flag = 0;
  return probe("MPI_Probe", source, tag, comm, &flag, status, Probing::until_found);
}
OPAL_MPI_FUNCTION(int, Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)) {
  int flag = 0;
  return matched_probe("MPI_Mprobe", source, tag, comm, &flag, message, status, Probing::until_found);
}
OPAL_MPI_FORWARD(Iprobe, probe, Probing::once)
OPAL_MPI_FORWARD(Improbe, matched_probe, Probing::once)
OPAL_MPI_FORWARD_BOTH(Mrecv, matched_receive)
OPAL_MPI_FORWARD_BOTH(Imrecv, start_matched_receive)
