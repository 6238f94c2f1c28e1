// SPDX-License-Identifier: Apache-2.0
// The contract's defaults: whatever a transport does not do itself goes over active messages and the software table.
#include "opal/btl/module.hpp"

#include <cstring>
#include <utility>

#include "opal/btl/quiescence.hpp"
#include "opal/btl/rdma_emulation.hpp"
#include "opal/gpu/copy.hpp"

namespace opal::btl {

Endpoint::Endpoint(Module& module, const PeerId& peer) noexcept : module_(module), peer_(peer) {
  next_ = std::exchange(module.endpoints_, this);
  if (next_ != nullptr) next_->previous_ = this;
}

Endpoint::~Endpoint() {
  (previous_ != nullptr ? previous_->next_ : module_.endpoints_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

Module::Module(const Host& host, const Attributes& attributes)
    : host_(host),
      attributes_(attributes),
      emulation_(std::make_unique<RdmaEmulation>(*this)),
      quiescence_(std::make_unique<Quiescence>(*this)) {}

Module::~Module() = default;

void Fragment::give_back_unsent() noexcept { to_->module().free(*this); }

Fragment Module::prepare_src(Endpoint& to, ByteSpan header, ByteSpan payload, Completion& completion) noexcept {
  Fragment fragment = alloc(to, header.size() + payload.size());
  if (!fragment) return fragment;
  if (!header.empty()) std::memcpy(fragment.data().data(), header.data(), header.size());
  if (const auto copied = gpu::copy(fragment.data().data() + header.size(), payload.data(), payload.size()); !copied) {
    to.set_error(copied.error());
    return {};
  }
  fragment.completion = &completion;
  return fragment;
}

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  return host_.registrations.add(base, size, rights);
}

Result<void> Module::deregister_memory(const MemoryHandle& handle) { return host_.registrations.remove(handle); }

void Module::invalidate_memory(const MemoryHandle& handle) noexcept {
  if (!attributes_.own_handles) host_.registrations.invalidate(handle);
}

void Module::invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  if (!attributes_.own_handles) host_.registrations.invalidate_part(handle, gone);
}

Post Module::put(Endpoint& to, const void* source, const MemoryHandle* /*local*/, std::uint64_t remote_address,
                 const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  return emulation_->put(to, source, remote_address, remote, size, completion);
}

Post Module::get(Endpoint& to, void* destination, const MemoryHandle* /*local*/, std::uint64_t remote_address,
                 const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  return emulation_->get(to, destination, remote_address, remote, size, completion);
}

Post Module::atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  return emulation_->atomic(to, request, completion);
}

Post Module::flush(Endpoint* to, Completion& completion) noexcept { return emulation_->flush(to, completion); }

void Module::quiesce(std::uint64_t round) noexcept { quiescence_->begin(round); }

bool Module::quiet() noexcept { return quiescence_->reached(); }

Result<void> Module::checkpoint() noexcept { return quiescence_->checkpoint(); }

void Module::resume() noexcept { quiescence_->end(); }

}  // namespace opal::btl
