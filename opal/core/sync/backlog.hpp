// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/backlog.hpp — a bounded list of events that cannot be handled where they occur: in a memory event or
// in a signal handler, which must not lock, allocate or make a system call.  The owner takes them later.
// If it is full, further events are lost, and take() reports that: the owner then assumes an event for everything.
// Threads: add() from any thread and from signal handlers, lock-free; take() from one thread at a time.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace opal {

template <class Event, std::size_t kMost>
class Backlog {
 public:
  void add(const Event& event) noexcept {
    if (!try_add(event)) lost_.store(true, std::memory_order_relaxed);
    any_.store(true, std::memory_order_release);
  }

  /// True when take() has something to take.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  /// Removes all events that were added before, and calls each(event) for them.  True: others are lost.
  template <class Each>
  [[nodiscard]] bool take(Each each) noexcept {
    if (!any_.exchange(false, std::memory_order_acq_rel)) return false;
    const bool lost = lost_.exchange(false, std::memory_order_relaxed);
    for (Slot& slot : slots_) {
      if (slot.state.load(std::memory_order_acquire) != State::full) continue;
      const Event event = slot.event;
      slot.state.store(State::free, std::memory_order_release);
      each(event);
    }
    return lost;
  }

 private:
  enum class State : std::uint8_t { free, writing, full };
  struct Slot {
    std::atomic<State> state{State::free};
    Event event{};
  };
  /// False: no slot is free.
  bool try_add(const Event& event) noexcept {
    for (Slot& slot : slots_) {
      State expected = State::free;
      if (!slot.state.compare_exchange_strong(expected, State::writing, std::memory_order_acquire)) continue;
      slot.event = event;
      slot.state.store(State::full, std::memory_order_release);
      return true;
    }
    return false;
  }

  std::atomic<bool> any_{false};
  std::atomic<bool> lost_{false};
  std::array<Slot, kMost> slots_;
};

}  // namespace opal
