// SPDX-License-Identifier: Apache-2.0
// opal/rcache/event_backlog.hpp — events that a cache cannot apply at once, because they come from a signal handler
// that interrupted a thread inside the cache's lock.  The next thread that releases the lock applies them.
// If more than 16 wait, the others become one event for the whole address space.
// Threads: add() from any thread and from signal handlers, lock-free; take() under the cache's lock.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "opal/memory/range.hpp"

namespace opal::rcache {

class EventBacklog {
 public:
  void add(memory::Range range) noexcept {
    for (Slot& slot : slots_) {
      State expected = State::free;
      if (!slot.state.compare_exchange_strong(expected, State::writing, std::memory_order_acquire)) continue;
      slot.range = range;
      slot.state.store(State::full, std::memory_order_release);
      any_.store(true, std::memory_order_release);
      return;
    }
    overflow_.store(true, std::memory_order_relaxed);
    any_.store(true, std::memory_order_release);
  }

  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  /// Removes all events that were added before, and calls apply(range) for each.
  template <class Apply>
  void take(Apply apply) noexcept {
    any_.exchange(false, std::memory_order_acq_rel);
    if (overflow_.exchange(false, std::memory_order_relaxed)) apply(memory::Range{0, UINTPTR_MAX});
    for (Slot& slot : slots_) {
      if (slot.state.load(std::memory_order_acquire) != State::full) continue;
      const memory::Range range = slot.range;
      slot.state.store(State::free, std::memory_order_release);
      apply(range);
    }
  }

 private:
  enum class State : std::uint8_t { free, writing, full };
  struct Slot {
    std::atomic<State> state{State::free};
    memory::Range range{};
  };
  std::atomic<bool> any_{false};
  std::atomic<bool> overflow_{false};
  std::array<Slot, 16> slots_;
};

}  // namespace opal::rcache
