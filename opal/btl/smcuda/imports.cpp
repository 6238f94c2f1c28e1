// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/smcuda/imports.hpp"

#include <algorithm>
#include <utility>

#include "opal/core/log.hpp"

namespace opal::btl::smcuda {
namespace {

bool same(const SoftwareHandle& a, const SoftwareHandle& b) noexcept {
  return a.slot == b.slot && a.generation == b.generation;
}

bool overlap(const gpu::MemoryHandle& handle, std::uint64_t base, std::uint64_t size) noexcept {
  return handle.base < base + size && base < handle.base + handle.size;
}

}  // namespace

const Imports::Entry* Imports::find(const gpu::MemoryHandle& handle) const noexcept {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.handle == handle; });
  return found == entries_.end() ? nullptr : &*found;
}

bool Imports::can_open(const gpu::MemoryHandle& handle) const noexcept {
  if (handle.memory_kind() == gpu::MemoryKind::legacy) return true;
  const Entry* const entry = find(handle);
  return entry != nullptr && entry->memory;
}

bool Imports::should_ask(const gpu::MemoryHandle& handle) const noexcept {
  return handle.memory_kind() != gpu::MemoryKind::other && refusals_ < kRefusals && find(handle) == nullptr;
}

void Imports::asked(const SoftwareHandle& region, const gpu::MemoryHandle& handle) {
  freed(handle.base, handle.size);  // live allocations do not overlap, so overlapping entries are stale
  if (entries_.size() == kMost) {
    entries_.erase(std::ranges::min_element(entries_, {}, &Entry::used));
  }
  entries_.push_back({.handle = handle, .region = region, .used = ++uses_});
}

void Imports::take(const SoftwareHandle& region, gpu::Descriptor descriptor) noexcept {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return !e.memory && same(e.region, region); });
  if (entry == entries_.end()) return;
  Result<gpu::ImportedMemory> taken = Error{Errc::not_supported, 0, "the peer gives no descriptor"};
  if (descriptor.file) taken = gpu::ImportedMemory::take(entry->handle, std::move(descriptor));
  if (taken) {
    refusals_ = 0;
    entry->memory.emplace(std::move(*taken));
    return;
  }
  log::debug("btl.smcuda", "memory of a peer is staged: {}", to_string(taken.error()));
  if (++refusals_ == kRefusals) {
    log::info("btl.smcuda", "no further descriptors of this peer's GPU memory are requested: {}",
              to_string(taken.error()));
  }
  entries_.erase(entry);
}

void Imports::freed(std::uint64_t base, std::uint64_t size) noexcept {
  std::erase_if(entries_, [&](const Entry& entry) { return overlap(entry.handle, base, size); });
}

void Imports::release() noexcept {
  std::erase_if(entries_, [](const Entry& entry) { return entry.memory.has_value(); });
}

Result<std::uintptr_t> Imports::open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept {
  if (handle.memory_kind() == gpu::MemoryKind::legacy) return gpu::open_memory(handle, context);
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.handle == handle && e.memory; });
  if (entry == entries_.end()) {
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
