// SPDX-License-Identifier: Apache-2.0
// Put, get and atomics by the network if it has them, else by messages (rdma_emulation.hpp).
#include <algorithm>

#include "opal/btl/shared/rdm/transport.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/shared/registrations/device_handle.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::rdm {

void Transport::finish(RdmaOperation& operation, const Error& why) noexcept {
  ++events_;
  operations().finish(operation, why);
}

RdmaOperation* Transport::begin(OperationKind kind, btl::Endpoint& to, const DeviceHandle& handle,
                                Completion& completion) noexcept {
  RdmaOperation* const operation = operations().begin(kind, to, completion, this);
  if (operation == nullptr) return nullptr;
  while (transfers_.size() <= operation->slot) transfers_.emplace_back();
  Transfer& transfer = transfer_of(*operation);
  transfer = {};
  transfer.handle = handle;
  transfer.transport = this;
  transfer.operation = operation;
  return operation;
}

Post Transport::transfer(OperationKind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                         std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                         Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (!native_) {
    return MessageTransport::transfer(kind, to, here, nullptr, remote_address, remote, size, completion);
  }
  if (pipelined_.takes(remote)) {
    return pipelined_.transfer(kind, to, here, local, remote_address, remote, size, completion);
  }
  const auto handle = DeviceHandle::decode(remote);
  if (!handle) return refuse(completion, handle.error());
  if (const auto checked = check_claims(handle->software, remote_address, size, right_for(kind)); !checked) {
    return refuse(completion, checked.error());
  }
  completion.error = {};
  if (size == 0) return Post::done;
  auto& endpoint = static_cast<Endpoint&>(to);
  if (!handle->has_key() || !endpoint.one_sided()) {
    const MemoryHandle software = handle->software_handle();
    return MessageTransport::transfer(kind, to, here, nullptr, remote_address, software, size, completion);
  }
  if (endpoint.state() != Endpoint::State::connected) return Post::again;
  RdmaOperation* const operation = begin(kind, to, *handle, completion);
  if (operation == nullptr) return Post::again;
  operation->local = here;
  operation->has_local_handle = local != nullptr;
  if (local != nullptr) operation->local_handle = *local;
  operation->base = remote_address;
  operation->total = size;
  start(*operation);
  return Post::queued;
}

void Transport::start(RdmaOperation& operation) noexcept {
  unposted_.push_back(&operation);
  post_pieces();
}

void Transport::post_pieces() noexcept {
  while (!unposted_.empty()) {
    RdmaOperation& operation = *unposted_.front();
    const Post posted = post_piece(operation);
    if (posted == Post::again) return;
    Transfer& transfer = transfer_of(operation);
    if (posted == Post::failed) {
      transfer.refused = true;
    } else {
      ++transfer.in_flight;
      if (operation.moved != operation.total) continue;
    }
    unposted_.erase(unposted_.begin());
    finish_if_ended(operation);
  }
}

void Transport::on_piece(RdmaOperation& operation, std::uint64_t size, const Error& why) noexcept {
  Transfer& transfer = transfer_of(operation);
  --transfer.in_flight;
  if (why.code == Errc{}) {
    transfer.acknowledged += size;
  } else {
    transfer.refused = true;
    operation.error = why;
    std::erase(unposted_, &operation);
  }
  finish_if_ended(operation);
  post_pieces();
}

/// Ends the operation if no piece is in flight and none is left to post.  Messages repeat a put or get that was
/// refused, and their target checks it precisely.
void Transport::finish_if_ended(RdmaOperation& operation) noexcept {
  const Transfer& transfer = transfer_of(operation);
  if (transfer.in_flight != 0) return;
  if (transfer.acknowledged == operation.total) return finish(operation, {});
  if (!transfer.refused) return;
  if (operation.kind == OperationKind::atomic) return finish(operation, operation.error);
  if (!emulate(operation)) refused_.push_back(&operation);
}

void Transport::post_again(const std::vector<RdmaOperation*>& operations) noexcept {
  for (RdmaOperation* const operation : operations) {
    Transfer& transfer = transfer_of(*operation);
    transfer.in_flight = 0;
    transfer.acknowledged = 0;
    operation->moved = 0;
    std::erase(unposted_, operation);
    unposted_.push_back(operation);
  }
  std::sort(unposted_.begin(), unposted_.end(),
            [](const RdmaOperation* a, const RdmaOperation* b) { return a->order < b->order; });
  on_stalled();
}

/// False: messages have no room.
bool Transport::emulate(RdmaOperation& operation) noexcept {
  Transfer& transfer = transfer_of(operation);
  if (operation.to->dead()) return true;  // end_operations() finishes it
  transfer.fn = [](Completion& self) noexcept {
    auto& done = static_cast<Transfer&>(self);
    if (done.ok()) static_cast<Endpoint*>(done.operation->to)->on_refused();
    done.transport->finish(*done.operation, done.error);
  };
  const MemoryHandle software = transfer.handle.software_handle();
  const Post post = emulation().transfer(operation.kind, *operation.to, operation.local, operation.base, software,
                                         operation.total, transfer);
  if (post == Post::again) return false;
  if (post != Post::queued) finish(operation, transfer.error);
  return true;
}

Post Transport::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (!native_ || pipelined_.takes(*request.remote)) return emulation().atomic(to, request, completion);
  if (const auto checked = check_request(request); !checked) return refuse(completion, checked.error());
  const auto handle = DeviceHandle::decode(*request.remote);
  if (!handle) return refuse(completion, handle.error());
  auto& endpoint = static_cast<Endpoint&>(to);
  const std::size_t size = size_of(request.type);
  if ((handle->flags & DeviceHandle::kAtomics) == 0 || !endpoint.one_sided() || !has_atomic(request.op, request.type)) {
    return emulate_atomic(to, request, *handle, completion);
  }
  if (const auto checked = check_claims(handle->software, request.remote_address, size, Rights::remote_atomic);
      !checked) {
    return refuse(completion, checked.error());
  }
  completion.error = {};
  if (endpoint.state() != Endpoint::State::connected) return Post::again;
  RdmaOperation* const operation = begin(OperationKind::atomic, to, *handle, completion);
  if (operation == nullptr) return Post::again;
  operation->base = request.remote_address;
  operation->total = size;
  operation->result = request.result;
  transfer_of(*operation).request = request;
  start(*operation);
  return Post::queued;
}

Post Transport::emulate_atomic(btl::Endpoint& to, const AtomicRequest& request, const DeviceHandle& handle,
                               Completion& completion) noexcept {
  const MemoryHandle software = handle.software_handle();
  AtomicRequest plain = request;
  plain.remote = &software;
  return emulation().atomic(to, plain, completion);
}

Post Transport::flush(btl::Endpoint* to, Completion& completion) noexcept {
  if (to != nullptr && to->dead()) return refuse(completion, to->error());
  return MessageTransport::flush(to, completion);
}

void Transport::end_operations(Endpoint& endpoint, const Error& why) noexcept {
  if (native_) {
    const auto is_its = [&](const RdmaOperation* operation) { return operation->to == &endpoint; };
    std::erase_if(unposted_, is_its);
    drop(endpoint);
    std::erase_if(refused_, is_its);
    pipelined_.endpoint_gone(endpoint, why);
  }
  ConnectedTransport::end_operations(endpoint, why);
  if (native_) operations().for_each(endpoint, this, [&](RdmaOperation& operation) { finish(operation, why); });
}

}  // namespace opal::btl::rdm
