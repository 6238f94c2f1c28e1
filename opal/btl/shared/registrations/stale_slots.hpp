// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/stale_slots.hpp — a bounded, lock-free list of slots of registrations whose memory is
// unmapped.  The memory event adds slots; the module takes them later.  If it overflows, take() reports that.
// Threads: add() from any thread, inside a memory event (no lock, allocation or system call); take() from one thread at
// a time.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace opal::btl {

class StaleSlots {
 public:
  void add(std::uint32_t slot) noexcept {
    auto& place = ring_[next_.fetch_add(1, std::memory_order_relaxed) % ring_.size()];
    if (place.exchange(std::uint64_t{slot} + 1, std::memory_order_relaxed) != 0) {
      lost_.store(true, std::memory_order_relaxed);
    }
    any_.store(true, std::memory_order_release);
  }

  /// True when take() has something to take.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  /// Calls `each(slot)` for the slots added since the last call.  True: some slots were overwritten, so the caller must
  /// treat every registration as stale.
  template <class Each>
  [[nodiscard]] bool take(Each each) noexcept {
    if (!any_.exchange(false, std::memory_order_acquire)) return false;
    for (auto& place : ring_) {
      if (const std::uint64_t entry = place.exchange(0, std::memory_order_relaxed); entry != 0) {
        each(static_cast<std::uint32_t>(entry - 1));
      }
    }
    return lost_.exchange(false, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, 64> ring_{};  // each: slot + 1; 0: empty
  std::atomic<std::uint32_t> next_{0};
  std::atomic<bool> lost_{false};  // an entry was overwritten since the last take()
  std::atomic<bool> any_{false};
};

}  // namespace opal::btl
