// SPDX-License-Identifier: Apache-2.0
// The IPC protocol of a smcuda module: sends the messages that ipc_state.hpp asks for, and calls the driver.
#include "opal/btl/smcuda/module.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"

namespace opal::btl::smcuda {
namespace {

/// Null: the peer is connected by another transport, and the message is ignored.
Module* module_of(const btl::Endpoint& from) noexcept { return dynamic_cast<Module*>(&from.module()); }

}  // namespace

Result<void> Module::take_tags() {
  HandlerTable& handlers = parameters().handlers;
  if (handlers.find(wire::kRequest) != nullptr) return {};  // handlers are set once per Context
  OPAL_TRY(handlers.set(wire::kRequest, bind_by_sender<&module_of, &Module::on_request>("smcuda request")));
  OPAL_TRY(handlers.set(wire::kAnswer, bind_by_sender<&module_of, &Module::on_answer>("smcuda answer")));
  return handlers.set(wire::kAskFile, bind_by_sender<&module_of, &Module::on_ask_file>("smcuda ask file"));
}

/// Called when a transfer from or to the peer has a GPU buffer: starts the protocol, if that was not done.
void Module::note_gpu_buffer(btl::Endpoint& to, const void* buffer) noexcept {
  if (!settings_.own.ipc || to.dead() || (extensions(to) & sm::kExtensionGpu) == 0) return;
  Peer& peer = peer_of(to);
  if (peer.ipc.state != IpcState::init) return;
  int ordinal = -1;
  if (const auto memory = gpu::inspect(buffer)) ordinal = memory->device;
  if (ordinal < 0) {  // the buffer is the peer's
    const auto work = gpu::WorkContext::any();
    if (!work) return;
    ordinal = work->device();
  }
  const auto device = gpu::device_id(ordinal);
  if (!device) return;
  if (!peer.ipc.on_gpu_buffer()) return;
  const wire::Request request{*device};
  emulation().answer(to, wire::kRequest, bytes_of(request));
}

/// This process's answer to a peer whose GPU memory is on device `theirs`.
Capability Module::capability_for(const gpu::DeviceId& theirs) const noexcept {
  if (!settings_.own.ipc) return Capability::no;
  const auto work = gpu::WorkContext::any();
  if (!work) return Capability::not_ready;  // the program has no CUDA context yet
  const auto there = gpu::ordinal_of(theirs);
  if (!there || !*there) return Capability::no;  // hidden by CUDA_VISIBLE_DEVICES
  const auto from_here = gpu::can_access(work->device(), **there);
  const auto from_there = gpu::can_access(**there, work->device());
  return from_here && *from_here && from_there && *from_there ? Capability::yes : Capability::no;
}

void Module::on_request(Delivery& delivery) noexcept {
  wire::Request request{};
  if (delivery.data.size() != sizeof request || !read_object(delivery.data, request)) return;
  Peer& peer = peer_of(delivery.from);
  if (!peer.ipc.on_request(parameters().id < delivery.from.peer())) return;
  const Capability capability = capability_for(request.device);
  const wire::Answer answer{static_cast<std::uint64_t>(capability)};
  emulation().answer(delivery.from, wire::kAnswer, bytes_of(answer));
  peer.ipc.on_answered(capability);
  settled(delivery.from, peer, IpcState::acking);
}

void Module::on_answer(Delivery& delivery) noexcept {
  wire::Answer answer{};
  if (delivery.data.size() != sizeof answer || !read_object(delivery.data, answer)) return;
  Peer& peer = peer_of(delivery.from);
  const IpcState before = peer.ipc.state;
  peer.ipc.on_answer(static_cast<Capability>(answer.capability));
  settled(delivery.from, peer, before);
}

/// Sets gpu_direct for the layer above, and logs a change of the state.
void Module::settled(btl::Endpoint& to, const Peer& peer, IpcState before) noexcept {
  to.gpu_direct = peer.ipc.usable();
  if (peer.ipc.state == before) return;
  if (peer.ipc.usable()) {
    log::info("btl.smcuda", "GPU memory of {} is mapped when needed", to_string(to.peer()));
  } else if (peer.ipc.state == IpcState::bad) {
    log::info("btl.smcuda", "GPU memory from and to {} goes through host memory: {}", to_string(to.peer()),
              peer.ipc.attempts >= Ipc::kAttempts ? "it has had no CUDA context whenever it was asked"
                                                  : "the devices do not reach each other, or btl_smcuda_ipc is off");
  }
}

Ipc Module::ipc_of(const btl::Endpoint& peer) const noexcept {
  const auto found = peers_.find(const_cast<btl::Endpoint*>(&peer));  // a key is only compared
  return found == peers_.end() ? Ipc{} : found->second.ipc;
}

}  // namespace opal::btl::smcuda
