// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/handle/arena.hpp"

#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <utility>

namespace mpi_shim::handle {
namespace {

constexpr std::size_t kMostReserved = std::size_t{64} << 30;   // 2^30 slots: a slot number fits an int
constexpr std::size_t kLeastReserved = std::size_t{16} << 20;  // the least that is tried, for a low RLIMIT_AS
constexpr std::size_t kChunk = std::size_t{64} << 10;          // what a size class takes at a time
constexpr std::size_t kStep = std::size_t{1} << 20;            // made readable and writable at a time

constexpr std::size_t slot_size(std::size_t bytes) { return (bytes + Arena::kSlotUnit - 1) & ~(Arena::kSlotUnit - 1); }

}  // namespace

constinit Arena Arena::process_arena;

bool Arena::reserve_locked() noexcept {
  // Address space only: PROT_NONE pages count towards RLIMIT_AS, not towards the commit limit.
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
  if (slots.quarantined <= kQuarantine) {
    // What is left of a chunk is smaller than a slot and stays unused.
    if (slots.fresh == nullptr || slots.fresh + size > slots.fresh_end) {
      slots.fresh = chunk_locked();
      if (slots.fresh != nullptr) slots.fresh_end = slots.fresh + kChunk;
    }
    if (slots.fresh != nullptr) return std::exchange(slots.fresh, slots.fresh + size);
    if (slots.quarantined == 0) return nullptr;
    // No memory: reuse the oldest slot before its quarantine ends.
  }
  FreeSlot* const slot = slots.oldest;
  slots.oldest = slot->next;
  --slots.quarantined;
  return slot;
}

void Arena::release(void* slot, std::size_t bytes) noexcept {
  // Zeroes the first word, so that find() sees no object, and next; the rest of the slot keeps its bytes.
  FreeSlot* freed = std::construct_at(static_cast<FreeSlot*>(slot));
  const std::lock_guard guard{lock_};
  SizeClass& slots = classes_[slot_size(bytes) / kSlotUnit - 1];
  if (slots.quarantined == 0) {
    slots.oldest = freed;
  } else {
    slots.newest->next = freed;
  }
  slots.newest = freed;
  ++slots.quarantined;
}

}  // namespace mpi_shim::handle
