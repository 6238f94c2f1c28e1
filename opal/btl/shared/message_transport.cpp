// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/message_transport.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/core/copy.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace opal::btl {

MessageTransport::MessageTransport(const ModuleParameters& parameters, const Attributes& attributes)
    : Module(parameters, attributes), emulation_(*this, operations_), pipelined_(*this, emulation_, operations_) {}

MessageTransport::~MessageTransport() {
  while (idle_buffers_ != nullptr) ::operator delete(std::exchange(idle_buffers_, idle_buffers_->next));
}

Fragment MessageTransport::alloc(Endpoint& to, std::size_t size) noexcept {
  if (!accepts(to, size)) return {};
  void* buffer = idle_buffers_;
  if (buffer != nullptr) {
    idle_buffers_ = idle_buffers_->next;
  } else {
    if (buffers_made_ == kBuffers) return {};
    buffer = ::operator new(std::max(attributes().max_send, sizeof(IdleBuffer)), std::nothrow);
    if (buffer == nullptr) return {};  // as back-pressure
    ++buffers_made_;
  }
  return Fragment{to, {static_cast<std::byte*>(buffer), size}, buffer};
}

Post MessageTransport::send(Fragment& fragment, Tag tag) noexcept {
  const Post post = send_inline(fragment.to(), tag, {}, fragment.data());
  if (post != Post::again) free(fragment);
  return post;
}

void MessageTransport::free(Fragment& fragment) noexcept {
  give_back(fragment.slot());
  fragment.disown();
}

Fragment MessageTransport::prepare_src(Endpoint& to, ByteSpan header, ByteSpan payload) noexcept {
  Fragment fragment = alloc(to, header.size() + payload.size());
  if (!fragment) return fragment;
  if (!header.empty()) copy_host_memory(fragment.data().data(), header.data(), header.size());
  if (const auto copied = gpu::copy(fragment.data().data() + header.size(), payload.data(), payload.size()); !copied) {
    to.set_error(copied.error());
    return {};
  }
  return fragment;
}

Result<MemoryHandle> MessageTransport::register_memory(void* base, std::uint64_t size, Rights rights) {
  return parameters().registrations.add(base, size, rights);
}

Result<void> MessageTransport::deregister_memory(const MemoryHandle& handle) {
  return parameters().registrations.remove(handle);
}

void MessageTransport::invalidate_memory(const MemoryHandle& handle) noexcept {
  if (!attributes().own_handles) parameters().registrations.invalidate(handle);
}

void MessageTransport::invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  if (!attributes().own_handles) parameters().registrations.invalidate_part(handle, gone);
}

Post MessageTransport::transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* here, const MemoryHandle* /*local*/,
                                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                                Completion& completion) noexcept {
  return emulation_.transfer(kind, to, here, remote_address, remote, size, completion);
}

Post MessageTransport::atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  return emulation_.atomic(to, request, completion);
}

Post MessageTransport::flush(Endpoint* to, Completion& completion) noexcept {
  if (to != nullptr && to->dead()) return refuse(completion, to->error());
  return operations_.flush(to, completion);
}

}  // namespace opal::btl
