// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/smcuda/imports.hpp"

#include <algorithm>
#include <utility>

#include "opal/core/log.hpp"

namespace opal::btl::smcuda {

Imports::Entry* Imports::find(const gpu::MemoryHandle& handle) noexcept {
  const auto found = std::ranges::find(entries_, handle, &Entry::handle);
  return found == entries_.end() ? nullptr : &*found;
}

bool Imports::can_open(const gpu::MemoryHandle& handle) noexcept {
  if (handle.memory_kind() == gpu::MemoryKind::legacy) return true;
  const Entry* const entry = find(handle);
  return entry != nullptr && entry->memory != nullptr;
}

bool Imports::should_ask(const gpu::MemoryHandle& handle) noexcept {
  return handle.memory_kind() != gpu::MemoryKind::other && refusals_ < kRefusals && find(handle) == nullptr;
}

void Imports::asked(const SoftwareHandle& region, const gpu::MemoryHandle& handle) {
  const std::uint64_t end = handle.base + handle.size;
  std::erase_if(entries_, [&](const Entry& entry) {  // these are stale, since live allocations do not overlap
    return entry.handle.base < end && handle.base < entry.handle.base + entry.handle.size;
  });
  if (entries_.size() == kMost) {
    entries_.erase(std::ranges::min_element(entries_, {}, &Entry::used));
  }
  entries_.push_back({.handle = handle, .region = region, .used = ++uses_});
}

void Imports::take(const SoftwareHandle& region, gpu::Descriptor descriptor) noexcept {
  const auto entry = std::ranges::find_if(entries_, [&](const Entry& e) {
    return e.memory == nullptr && e.region.slot == region.slot && e.region.generation == region.generation;
  });
  if (entry == entries_.end()) return;
  auto taken = descriptor.file
                   ? gpu::ImportedMemory::take(entry->handle, std::move(descriptor))
                   : Result<gpu::ImportedMemory>{Error{Errc::not_supported, 0, "the peer gives no descriptor"}};
  if (taken) {
    refusals_ = 0;
    entry->memory = std::make_unique<gpu::ImportedMemory>(std::move(*taken));
    return;
  }
  log::debug("btl.smcuda", "memory of a peer is staged: {}", to_string(taken.error()));
  if (++refusals_ == kRefusals) {
    log::info("btl.smcuda", "no further descriptors of this peer's GPU memory are requested: {}",
              to_string(taken.error()));
  }
  entries_.erase(entry);
}

void Imports::release() noexcept {
  std::erase_if(entries_, [](const Entry& entry) { return entry.memory != nullptr; });
}

Result<std::uintptr_t> Imports::open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept {
  if (handle.memory_kind() == gpu::MemoryKind::legacy) return gpu::open_memory(handle, context);
  Entry* const entry = find(handle);
  if (entry == nullptr || entry->memory == nullptr) {
    return Error{Errc::unreachable, 0, "smcuda: no descriptor of the peer's memory", handle.base};
  }
  entry->used = ++uses_;
  return entry->memory->map(context);
}

void Imports::close(const gpu::MemoryHandle& handle, std::uintptr_t address, gpu::ContextHandle context) noexcept {
  if (handle.memory_kind() == gpu::MemoryKind::legacy) return gpu::close_memory(address, context);
  gpu::ImportedMemory::unmap(handle, address, context);
}

}  // namespace opal::btl::smcuda
