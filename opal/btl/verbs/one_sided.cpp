// SPDX-License-Identifier: Apache-2.0
// Registrations, and puts, gets and atomics over one-sided queues.
#include "opal/btl/verbs/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::verbs {

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

Module::Way Module::way_to(Endpoint& endpoint) noexcept {
  OneSidedQueue* const queue = endpoint.one_sided_queue();
  if (queue == nullptr) return Way::messages;
  return queue->ready() ? Way::device : Way::later;
}

bool Module::has_atomic(AtomicOp op, AtomicType type) const noexcept {
  return device_atomics_ && (type == AtomicType::i64 || type == AtomicType::u64) &&
         (op == AtomicOp::add || op == AtomicOp::compare_swap);
}

void Module::start(RdmaOperation& operation) noexcept {
  static_cast<Endpoint*>(operation.to)->one_sided_queue()->start(operation);
}

void Module::finish(RdmaOperation& operation, const Error& why) noexcept {
  count_event();
  operations().finish(operation, why);
}

Post Module::flush(btl::Endpoint* to, Completion& completion) noexcept {
  post_collected();
  return DeviceTransport::flush(to, completion);
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
