// SPDX-License-Identifier: Apache-2.0
// Handles of GPU memory, and put and get where either side is GPU memory.
#include <new>
#include <utility>

#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/smcuda/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::smcuda {
namespace {

/// The part of the handle that names a registration in the Context's table.
MemoryHandle table_part(const MemoryHandle& handle) noexcept {
  wire::GpuHandle gpu{};
  return wire::read(handle, gpu) ? gpu.table_part() : handle;
}

}  // namespace

Fragment Module::prepare_src(btl::Endpoint& to, ByteSpan header, ByteSpan payload) noexcept {
  if (!payload.empty() && !gpu::is_host(payload.data())) note_gpu_buffer(to, payload.data());
  return sm::Module::prepare_src(to, header, payload);
}

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  if (gpu::is_host(base)) [[likely]]
    return sm::Module::register_memory(base, size, rights);
  OPAL_TRY_ASSIGN(const gpu::Memory memory, gpu::inspect(base));
  const auto exported = gpu::export_memory(memory);
  OPAL_TRY_ASSIGN(const MemoryHandle software, sm::Module::register_memory(base, size, rights));
  // Memory that peers cannot map gets a handle without GpuHandle::memory; its owner copies it.
  if (!exported || !memory.contains(reinterpret_cast<std::uintptr_t>(base), size)) return software;
  OPAL_TRY_ASSIGN(const SoftwareHandle slot, SoftwareHandle::decode(software));
  return MemoryHandle::from_bytes(bytes_of(wire::GpuHandle{slot, *exported}));
}

Result<void> Module::deregister_memory(const MemoryHandle& handle) {
  return sm::Module::deregister_memory(table_part(handle));
}

void Module::invalidate_memory(const MemoryHandle& handle) noexcept {
  sm::Module::invalidate_memory(table_part(handle));
}

Post Module::transfer(Kind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  if (remote.bytes().size() == sizeof(SoftwareHandle) && gpu::is_host(here)) [[likely]]
    return sm::Module::transfer(kind, to, here, local, remote_address, remote, size, completion);
  return transfer_gpu(kind, to, here, remote_address, remote, size, completion);
}

Post Module::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  wire::GpuHandle target{};
  if (wire::read(*request.remote, target)) {
    return btl::refuse(completion, {Errc::not_supported, 0, "atomic: the memory is a GPU's", request.remote_address});
  }
  return sm::Module::atomic(to, request, completion);
}

Post Module::transfer_gpu(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                          const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  const bool gpu_here = !gpu::is_host(here);
  constexpr Error kStage{Errc::not_supported, 0, "smcuda: this GPU memory has to be staged"};
  note_gpu_buffer(to, here);
  wire::GpuHandle target{};
  if (!wire::read(remote, target)) {
    if (remote.bytes().size() != sizeof(SoftwareHandle)) {
      return btl::refuse(completion, {Errc::protocol, 0, "memory handle: not one of smcuda", remote.bytes().size()});
    }
    return btl::refuse(completion, kStage);  // the peer's memory is host memory, or GPU memory that cannot be mapped
  }
  const MemoryHandle slot = target.table_part();
  const Rights wanted = right_for(kind);
  if (const auto allowed = check_remote(to, slot, remote_address, size, wanted); !allowed) {
    return btl::refuse(completion, allowed.error());
  }
  // The table has confirmed the range; the allocation around it is only the peer's claim.
  const gpu::MemoryHandle& memory = target.memory;
  if (memory.size > UINT64_MAX - memory.base || remote_address < memory.base ||
      remote_address - memory.base > memory.size || size > memory.size - (remote_address - memory.base)) {
    return btl::refuse(
        completion,
        {Errc::protocol, 0, "smcuda: the range is not in the allocation that the handle names", remote_address});
  }
  completion.error = {};
  if (size == 0) return Post::done;
  if (Peer& peer = peer_of(to); peer.ipc.usable() && !peer.refused_access) {
    const auto post = copy_by_ipc(kind, to, here, remote_address, target, size, completion);
    if (post) return *post;
    log::debug("btl.smcuda", "staged: {}", to_string(post.error()));
    if (post.error().code == Errc::not_supported) {
      peer.refused_access = true;
      to.gpu_direct = false;
    }
  }
  if (gpu_here) return btl::refuse(completion, kStage);
  // NOLINTNEXTLINE(bugprone-parent-virtual-call): by messages, not by sm's copies
  return MessageTransport::transfer(kind, to, here, nullptr, remote_address, slot, size, completion);
}

/// Starts a copy by the device.  Errors: no copy was started; the caller uses staging or messages.
Result<Post> Module::copy_by_ipc(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                                 const wire::GpuHandle& target, std::uint64_t size, Completion& completion) noexcept {
  const gpu::MemoryHandle& memory = target.memory;
  OPAL_TRY_ASSIGN(const gpu::Memory local, gpu::inspect(here));
  OPAL_TRY_ASSIGN(gpu::WorkContext work, gpu::WorkContext::of(local));
  gpu::make_synchronous(local);
  Peer& peer = peer_of(to);
  if (!peer.imports.can_open(memory)) {
    ask_for_file(to, peer, target.software, memory);
    return Error{Errc::unreachable, 0, "smcuda: the peer has not sent a descriptor of this memory", memory.base};
  }
  OPAL_TRY_ASSIGN(Window* const window, peer.window(std::move(work), settings_.cache));
  OPAL_TRY_ASSIGN(rcache::RemoteGpuMemory mapped, window->cache_of(memory).get(memory));
  OPAL_TRY_ASSIGN(const std::uintptr_t there, mapped.at(remote_address - memory.base, size));
  RdmaOperation* const operation = operations().begin(kind, to, completion, this);
  if (operation == nullptr) return Post::again;
  if (copyings_.size() <= operation->slot) copyings_.resize(operation->slot + 1);
  Copying& copying = copyings_[operation->slot];
  copying = {this, operation, &peer, std::move(mapped)};
  void* const remote = reinterpret_cast<void*>(there);
  const std::uint64_t queue = queue_of(peer);
  const gpu::Copier::Done done{&Module::copied, &copying};
  const auto started = kind == Kind::put ? copier_->copy(window->work.handle(), queue, remote, here, size, done)
                                         : copier_->copy(window->work.handle(), queue, here, remote, size, done);
  if (!started) {
    copying.mapped = {};
    (void)operations().end(*operation);
    if (started.error().code == Errc::busy) return Post::again;
    return started.error();
  }
  ++peer.copying;
  want_attention();
  return Post::queued;
}

/// The number of the peer's stream: copies of one peer end, and complete, in the order of their posts.
std::uint64_t Module::queue_of(const Peer& peer) noexcept {
  return reinterpret_cast<std::uintptr_t>(&peer) / sizeof(Peer);
}

void Module::copied(void* user, const Result<void>& result) noexcept {
  auto& copying = *static_cast<Copying*>(user);
  copying.mapped = {};
  --copying.peer->copying;
  copying.module->operations().finish(*copying.operation, result ? Error{} : result.error());
}

void Peer::drop_windows_of_destroyed_contexts() noexcept {
  std::erase_if(windows, [this](const auto& window) {
    if (gpu::context_alive(window->id)) return false;
    for (rcache::Rgpusm* const cache : {&window->kept, &window->passing}) {
      cache->flush();
      dropped += cache->statistics();
    }
    return true;
  });
}

Result<Window*> Peer::window(gpu::WorkContext work, const rcache::Config& config) noexcept try {
  OPAL_TRY_ASSIGN(const std::uint64_t id, gpu::context_id(work.handle()));
  for (const auto& window : windows) {
    if (window->id == id) return window.get();
  }
  if (copying == 0) drop_windows_of_destroyed_contexts();
  windows.push_back(std::make_unique<Window>(std::move(work), id, config, imports));
  return windows.back().get();
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "smcuda: a cache of the peer's GPU memory"};
}

}  // namespace opal::btl::smcuda
