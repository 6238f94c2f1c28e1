// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/handle/arena.hpp"

#include <sys/mman.h>

#include <memory>
#include <mutex>

namespace mpi_shim::handle {
namespace {

constexpr std::size_t kMostReserved = std::size_t{64} << 30;
constexpr std::size_t kLeastReserved = std::size_t{16} << 20;  // enough for programs under a tight address-space limit
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kStep = std::size_t{1} << 20;  // made readable at a time

constexpr std::size_t slot_size(std::size_t bytes) { return (bytes + Arena::kSlotUnit - 1) & ~(Arena::kSlotUnit - 1); }

}  // namespace

constinit Arena Arena::process_arena;

bool Arena::reserve_locked() noexcept {
  // Only address space: nothing is charged before it is made readable.
  for (std::size_t size = kMostReserved; size >= kLeastReserved; size /= 2) {
    void* range = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    base_.store(reinterpret_cast<std::uintptr_t>(range), std::memory_order_relaxed);
    reserved_ = size;
    return true;
  }
  return false;
}

std::byte* Arena::chunk_locked() noexcept {
  if (reserved_ == 0 && !reserve_locked()) return nullptr;
  auto* base = reinterpret_cast<std::byte*>(base_.load(std::memory_order_relaxed));
  const std::size_t usable = usable_.load(std::memory_order_relaxed);
  if (chunks_end_ == usable) {
    if (usable == reserved_) return nullptr;
    if (::mprotect(base + usable, kStep, PROT_READ | PROT_WRITE) != 0) return nullptr;
    usable_.store(usable + kStep, std::memory_order_release);
  }
  std::byte* chunk = base + chunks_end_;
  chunks_end_ += kChunk;
  return chunk;
}

void* Arena::allocate(std::size_t bytes) noexcept {
  if (bytes == 0 || bytes > kMaxSlot) return nullptr;
  const std::size_t size = slot_size(bytes);
  const std::lock_guard guard{lock_};
  SizeClass& slots = classes_[size / kSlotUnit - 1];
  if (slots.resting > kQuarantine) {
    FreeSlot* slot = slots.oldest;
    slots.oldest = slot->next;
    --slots.resting;
    return slot;
  }
  if (slots.fresh == nullptr || slots.fresh + size > slots.fresh_end) {
    slots.fresh = chunk_locked();
    if (slots.fresh == nullptr) {
      if (slots.resting == 0) return nullptr;  // out of memory: rather reuse early than refuse
      FreeSlot* slot = slots.oldest;
      slots.oldest = slot->next;
      if (--slots.resting == 0) slots.newest = nullptr;
      return slot;
    }
    slots.fresh_end = slots.fresh + kChunk;
  }
  std::byte* slot = slots.fresh;
  slots.fresh += size;
  return slot;
}

void Arena::release(void* slot, std::size_t bytes) noexcept {
  FreeSlot* freed = std::construct_at(static_cast<FreeSlot*>(slot));  // all zero
  const std::lock_guard guard{lock_};
  SizeClass& slots = classes_[slot_size(bytes) / kSlotUnit - 1];
  if (slots.resting == 0) {
    slots.oldest = freed;
  } else {
    slots.newest->next = freed;
  }
  slots.newest = freed;
  ++slots.resting;
}

}  // namespace mpi_shim::handle
