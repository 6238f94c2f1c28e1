// SPDX-License-Identifier: Apache-2.0
// The initiator's side of put, get and atomic on the device.
#include <cstring>
#include <utility>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/sim/module.hpp"

namespace opal::btl::sim {

static_assert(sizeof(Key) != sizeof(SoftwareHandle), "PipelinedTransfers tells them apart by their size");

Result<Key> Module::hold(Local& local, const MemoryHandle* given, std::byte* bytes, std::uint64_t size) noexcept {
  if (given != nullptr) return key_of(*given);
  if (rcache::Cache* cache = registrations(); cache != nullptr) {
    OPAL_TRY_ASSIGN(local.lease, cache->get(bytes, size, static_cast<rcache::Access>(Rights::none)));
    return key_of(local.lease->cookie().get<MemoryHandle>());
  }
  OPAL_TRY_ASSIGN(local.handle, register_memory(bytes, size, Rights::none));
  local.registered = true;
  return key_of(local.handle);
}

void Module::release(Local& local) noexcept {
  local.lease.reset();
  if (std::exchange(local.registered, false)) (void)deregister_memory(local.handle);
}

void Module::post(Endpoint& to, const Transfer& transfer, ByteSpan inline_bytes, std::size_t room) noexcept {
  Packet& packet = fabric_->make(Packet::Kind::request, sizeof transfer + room);
  packet.write(transfer);
  if (!inline_bytes.empty()) std::memcpy(packet.payload() + sizeof transfer, inline_bytes.data(), inline_bytes.size());
  (void)fabric_->send(*to.out_, packet);  // only messages are refused
}

Post Module::transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* bytes, const MemoryHandle* local,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  const auto in_pieces = [&] {
    return pipelined().transfer(kind, to, bytes, local, remote_address, remote, size, completion);
  };
  if (pipelined().takes(remote)) return in_pieces();
  const Result<Key> remote_key = key_of(remote);
  if (!remote_key) return refuse(completion, remote_key.error());
  // Check the bounds in the handle: a wrong size must not reach beyond the local buffer.  The target checks again.
  if (auto within = check_bounds(remote_key->base, remote_key->size, remote_address, size); !within) {
    return refuse(completion, within.error());
  }
  if (pipelined().takes(local, remote, size)) return in_pieces();
  RdmaOperation* const operation = operations().begin(kind, to, completion, this);
  if (operation == nullptr) return Post::again;
  if (locals_.size() <= operation->slot) locals_.resize(operation->slot + 1);
  completion.error = {};
  operation->local = bytes;
  operation->total = size;
  Transfer transfer{};
  transfer.kind = operation->is_put() ? Transfer::Kind::put : Transfer::Kind::get;
  transfer.operation = operations().name_of(*operation);
  transfer.remote = *remote_key;
  transfer.remote_address = remote_address;
  transfer.size = size;
  transfer.in_packet = size <= kInline;
  if (transfer.in_packet) {
    post(static_cast<Endpoint&>(to), transfer, operation->is_put() ? ByteSpan{bytes, size} : ByteSpan{}, size);
    return Post::queued;
  }
  const Result<Key> local_key = hold(locals_[operation->slot], local, bytes, size);
  if (!local_key) {
    (void)operations().end(*operation);
    // Operations of this module may hold the registrations; their ends make room.
    if (local_key.error().code == Errc::limit_reached && operations().active() != 0) return Post::again;
    return refuse(completion, local_key.error());
  }
  transfer.local = *local_key;
  transfer.local_address = reinterpret_cast<std::uint64_t>(bytes);
  post(static_cast<Endpoint&>(to), transfer, {}, 0);
  return Post::queued;
}

Post Module::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (const auto checked = check_request(request); !checked) return refuse(completion, checked.error());
  if (pipelined().takes(*request.remote)) return emulation().atomic(to, request, completion);
  const Result<Key> remote_key = key_of(*request.remote);
  if (!remote_key) return refuse(completion, remote_key.error());
  RdmaOperation* operation = operations().begin(RdmaOperation::Kind::atomic, to, completion, this);
  if (operation == nullptr) return Post::again;
  if (locals_.size() <= operation->slot) locals_.resize(operation->slot + 1);
  completion.error = {};
  operation->result = request.result;
  Transfer transfer{};
  transfer.kind = Transfer::Kind::atomic;
  transfer.operation = operations().name_of(*operation);
  transfer.remote = *remote_key;
  transfer.remote_address = request.remote_address;
  transfer.size = size_of(request.type);
  transfer.operand = request.operand;
  transfer.compare = request.compare;
  transfer.op = request.op;
  transfer.type = request.type;
  transfer.in_packet = true;
  post(static_cast<Endpoint&>(to), transfer, {}, 0);
  return Post::queued;
}

void Module::complete(Endpoint& from, Packet& response) noexcept {
  const auto transfer = response.read<Transfer>();
  RdmaOperation* operation = operations().find(transfer.operation, from, this);
  if (operation == nullptr) return;  // ended when its endpoint died
  if (transfer.error.code == Errc{}) {
    if (operation->kind == RdmaOperation::Kind::get && transfer.in_packet && transfer.size != 0) {
      std::memcpy(operation->local, response.payload() + sizeof transfer, transfer.size);
    }
    if (operation->kind == RdmaOperation::Kind::atomic && operation->result != nullptr) {
      *operation->result = transfer.old_value;
    }
  }
  end(*operation, transfer.error);
}

void Module::end(RdmaOperation& operation, const Error& why) noexcept {
  release(locals_[operation.slot]);
  operations().finish(operation, why);
}

void Module::end_operations(Endpoint& endpoint, const Error& why) noexcept {
  pipelined().endpoint_gone(endpoint, why);
  emulation().endpoint_gone(endpoint, why);
  operations().for_each(endpoint, this, [&](RdmaOperation& operation) { end(operation, why); });
}

}  // namespace opal::btl::sim
