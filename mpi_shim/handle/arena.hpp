// SPDX-License-Identifier: Apache-2.0
// mpi_shim/handle/arena.hpp — the one address range that holds every object behind an MPI handle.
// A handle is a pointer that the application passes back, possibly freed, possibly garbage.  All objects lie in one
// reserved range that is never unmapped, so any 64-bit value can be checked without a fault.  Threads: safe from any
// thread.  Invariants: slots are multiples of 64 bytes, aligned to 64; a freed slot stays in quarantine behind others
// of its size before it is reused, so that a stale handle is an error and does not name a new object.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "opal/core/sync/spin_lock.hpp"

namespace mpi_shim::handle {

class Arena {
 public:
  static constexpr std::size_t kSlotUnit = 64;    ///< slot sizes and addresses are multiples of this
  static constexpr std::size_t kMaxSlot = 8192;   ///< the largest object
  static constexpr std::size_t kQuarantine = 32;  ///< freed slots of one size before the oldest is reused

  constexpr Arena() = default;

  /// The arena of this process.  It is never torn down: programs call MPI from their exit handlers.
  static Arena& process() noexcept { return process_arena; }

  /// `bytes` <= kMaxSlot of uninitialised memory aligned to 64 whose first word reads 0; null when there is no memory.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;

  /// Gives back what allocate(bytes) returned; the slot's first word reads 0 from now on.
  void release(void* slot, std::size_t bytes) noexcept;

  /// True when `address` is a multiple of kSlotUnit in the readable part of the arena, so that a magic word can be read
  /// there.  It may also be inside a slot of several units, or in memory that no slot uses yet.
  [[nodiscard]] bool is_slot_address(std::uintptr_t address) const noexcept {
    const std::size_t usable = usable_.load(std::memory_order_acquire);  // before base_, which was stored before it
    return address % kSlotUnit == 0 && address - base_.load(std::memory_order_relaxed) < usable;
  }

  /// Slots as small integers, for handles in Fortran: the number of an address for which is_slot_address() is true...
  [[nodiscard]] int slot_number(std::uintptr_t address) const noexcept {
    return static_cast<int>((address - base_.load(std::memory_order_relaxed)) / kSlotUnit);
  }
  /// ... and back; no slot's address for a number that no slot has.
  [[nodiscard]] std::uintptr_t slot_address(int number) const noexcept {
    return base_.load(std::memory_order_relaxed) + static_cast<std::uintptr_t>(number) * kSlotUnit;
  }

 private:
  struct FreeSlot {
    std::uint64_t zero;  // where a live object has its magic word
    FreeSlot* next;
  };
  struct SizeClass {
    FreeSlot* oldest = nullptr;
    FreeSlot* newest = nullptr;  // valid if quarantined != 0, as oldest
    std::size_t quarantined = 0;
    std::byte* fresh = nullptr;  // not handed out yet
    std::byte* fresh_end = nullptr;
  };
  static Arena process_arena;

  bool reserve_locked() noexcept;
  std::byte* chunk_locked() noexcept;

  opal::SpinLock lock_;
  std::atomic<std::uintptr_t> base_{0};
  std::atomic<std::size_t> usable_{0};  // bytes from base_ that are mapped readable
  std::size_t reserved_ = 0;
  std::size_t chunks_end_ = 0;
  SizeClass classes_[kMaxSlot / kSlotUnit];
};

}  // namespace mpi_shim::handle
