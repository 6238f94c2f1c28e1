// SPDX-License-Identifier: Apache-2.0
// Put, get, atomics and flush: over a one-sided queue if the device can do them, else by messages (rdma_emulation.hpp).
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/verbs/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::verbs {
namespace {

using Kind = RdmaOperation::Kind;

}  // namespace

// ---- Memory -----------------------------------------------------------------------------------------------------

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  if (gone_.code != Errc{}) return gone_;
  return memory_.add(base, size, rights);
}

Result<void> Module::deregister_memory(const MemoryHandle& handle) { return memory_.remove(handle); }

void Module::invalidate_memory(const MemoryHandle& handle) noexcept { memory_.invalidate(handle); }

void Module::invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  memory_.invalidate_part(handle, gone);
}

// ---- Operations -------------------------------------------------------------------------------------------------

Transfer& Module::transfer_of(const RdmaOperation& operation) noexcept { return transfers_[operation.slot]; }

RdmaOperation* Module::begin(Kind kind, btl::Endpoint& to, Completion& completion) {
  RdmaOperation* const operation = operations().begin(kind, to, completion, this);
  if (operation == nullptr) return nullptr;
  while (transfers_.size() <= operation->slot) transfers_.emplace_back();
  transfers_[operation->slot] = {};
  return operation;
}

void Module::finish(RdmaOperation& operation, const Error& why) noexcept {
  ++events_;
  transfer_of(operation).local.reset();
  operations().finish(operation, why);
}

Result<DeviceHandle> Module::usable(const MemoryHandle& remote, std::uint64_t address, std::uint64_t size,
                                    Rights wanted) noexcept {
  OPAL_TRY_ASSIGN(const DeviceHandle handle, DeviceHandle::decode(remote));
  OPAL_TRY(check_claims(handle.software, address, size, wanted));
  return handle;
}

Post Module::transfer(Kind kind, btl::Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (pipelined_.takes(remote)) {
    return pipelined_.transfer(kind, to, local, local_handle, remote_address, remote, size, completion);
  }
  const auto handle = usable(remote, remote_address, size, right_for(kind));
  if (!handle) return refuse(completion, handle.error());
  completion.error = {};
  if (size == 0) return Post::done;
  auto& endpoint = static_cast<Endpoint&>(to);
  OneSidedQueue* const queue = handle->has_key() ? endpoint.one_sided_queue() : nullptr;
  if (queue == nullptr) {
    const MemoryHandle software = handle->software_handle();
    return MessageTransport::transfer(kind, to, local, nullptr, remote_address, software, size, completion);
  }
  if (!queue->ready()) return Post::again;
  RdmaOperation* const operation = begin(kind, to, completion);
  if (operation == nullptr) return Post::again;
  operation->local = local;
  operation->base = remote_address;
  operation->total = size;
  Transfer& transfer = transfer_of(*operation);
  transfer.key = static_cast<std::uint32_t>(handle->key);
  if (local_handle != nullptr) transfer.local = memory_.find(*local_handle, local, size, kind == Kind::get);
  queue->start(*operation);
  return Post::queued;
}

bool Module::device_does(const AtomicRequest& request) const noexcept {
  if (!device_atomics_) return false;
  if (request.type != AtomicType::i64 && request.type != AtomicType::u64) return false;
  return request.op == AtomicOp::add || request.op == AtomicOp::compare_swap;
}

Post Module::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  // Some devices never complete a misaligned one.
  if (const auto checked = check_request(request); !checked) return refuse(completion, checked.error());
  const std::size_t size = size_of(request.type);
  if (pipelined_.takes(*request.remote)) return emulation().atomic(to, request, completion);
  const auto handle = usable(*request.remote, request.remote_address, size, Rights::remote_atomic);
  if (!handle) return refuse(completion, handle.error());
  completion.error = {};
  auto& endpoint = static_cast<Endpoint&>(to);
  OneSidedQueue* const queue =
      (handle->flags & DeviceHandle::kAtomics) != 0 && device_does(request) ? endpoint.one_sided_queue() : nullptr;
  if (queue == nullptr) {
    const MemoryHandle software = handle->software_handle();
    AtomicRequest plain = request;
    plain.remote = &software;
    return emulation().atomic(to, plain, completion);
  }
  if (!queue->ready()) return Post::again;
  RdmaOperation* const operation = begin(Kind::atomic, to, completion);
  if (operation == nullptr) return Post::again;
  operation->base = request.remote_address;
  operation->total = size;
  operation->result = request.result;
  Transfer& transfer = transfer_of(*operation);
  transfer.key = static_cast<std::uint32_t>(handle->key);
  transfer.op = request.op;
  transfer.operand = request.operand;
  transfer.compare = request.compare;
  queue->start(*operation);
  return Post::queued;
}

Post Module::flush(btl::Endpoint* to, Completion& completion) noexcept {
  if (to != nullptr && to->dead()) return refuse(completion, to->error());
  post_collected();
  return MessageTransport::flush(to, completion);
}

void Module::end_operations(Endpoint& endpoint, const Error& why) noexcept {
  endpoint.drop_one_sided_queue();
  pipelined_.endpoint_gone(endpoint, why);
  ConnectedTransport::end_operations(endpoint, why);
  operations().for_each(endpoint, this, [&](RdmaOperation& operation) { finish(operation, why); });
}

void Module::accept_one_sided(CmId& id, const CmEvent& event, const wire::Request& request) noexcept {
  Endpoint* const known = find(request.from);
  wire::Reason reason = wire::Reason::busy;  // the peer's confirm may still arrive
  if (known != nullptr && known->state() == Endpoint::State::connected) {
    if (known->serve(id, event, request)) return;
    reason = wire::Reason::unauthenticated;
  }
  log::debug("btl.verbs", "refused a one-sided connection, reason {}", static_cast<unsigned>(reason));
  const wire::Refusal refusal{wire::kMagic, reason};
  (void)rdma_reject(id.get(), &refusal, sizeof refusal);
}

}  // namespace opal::btl::verbs
