// SPDX-License-Identifier: Apache-2.0
// Listeners are in slots of a fixed array.  An event increments Slot::visitors before it loads the
// listener.  remove_listener() clears the slot, then waits until visitors is 0.
#include "opal/memory/events/events.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>

namespace opal::memory {
namespace {

struct Slot {
  std::atomic<Listener*> listener{nullptr};
  std::atomic<std::uint32_t> visitors{0};  // number of events that may be calling the listener
};

constinit std::array<Slot, kMostListeners> slots;
constinit std::atomic<std::size_t> slots_used{0};  // the slots from this one on never had a listener
constinit std::mutex list_mutex;                   // adding and removing; events never take it

template <class Visit>
void for_each_slot(Visit visit) noexcept {
  for (Slot& slot : std::span{slots}.first(slots_used.load(std::memory_order_acquire))) visit(slot);
}

/// A release in flight.  `begin` is 0 if the place is free, and kTaken while a thread fills it.
struct Place {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
};
constexpr std::uintptr_t kTaken = 1;  // not the address of a page
constexpr int kNoPlace = -1;          // Releasing::place_ if `releases` is full
constexpr int kNotCounted = -2;       // Releasing::place_ of an empty range
constinit std::array<Place, 64> releases;
constinit std::atomic<std::uint32_t> releases_under_way{0};      // number of Releasing objects that count
constinit std::atomic<std::uint32_t> releases_without_place{0};  // not 0: every range counts as being released

/// Resets the counts of events in the child of a fork, which has only the thread that forked.
void forget_visitors_in_child() noexcept {
  for (Place& place : releases) place.begin.store(0, std::memory_order_relaxed);
  releases_under_way.store(0, std::memory_order_relaxed);
  releases_without_place.store(0, std::memory_order_relaxed);
  for_each_slot([](Slot& slot) { slot.visitors.store(0, std::memory_order_relaxed); });
  list_mutex.unlock();
}

}  // namespace

namespace detail {
constinit std::atomic<std::uint32_t> interested{0};
}  // namespace detail

Result<void> add_listener(Listener& listener) noexcept {
  static const int prepared =
      ::pthread_atfork([] { list_mutex.lock(); }, [] { list_mutex.unlock(); }, forget_visitors_in_child);
  if (prepared != 0) return Error{Errc::no_memory, prepared, "pthread_atfork(memory events)"};
  const std::lock_guard lock{list_mutex};
  const auto slot = std::ranges::find_if(slots, [](const Slot& each) { return each.listener == nullptr; });
  if (slot == slots.end()) return Error{Errc::limit_reached, 0, "memory events: one more listener", kMostListeners};
  slot->listener.store(&listener, std::memory_order_seq_cst);
  const auto used = static_cast<std::size_t>(slot - slots.begin()) + 1;
  if (used > slots_used.load(std::memory_order_relaxed)) slots_used.store(used, std::memory_order_release);
  detail::interested.fetch_add(1, std::memory_order_seq_cst);
  return {};
}

void remove_listener(Listener& listener) noexcept {
  const std::lock_guard lock{list_mutex};
  for_each_slot([&](Slot& slot) {
    if (slot.listener.load(std::memory_order_relaxed) != &listener) return;
    slot.listener.store(nullptr, std::memory_order_seq_cst);
    detail::interested.fetch_sub(1, std::memory_order_seq_cst);
    while (slot.visitors.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  });
}

namespace {

template <class Notify>
void notify_all(Range range, Notify notify) noexcept {
  if (range.empty()) return;
  for_each_slot([&](Slot& slot) {
    if (slot.listener.load(std::memory_order_relaxed) == nullptr) return;
    slot.visitors.fetch_add(1, std::memory_order_seq_cst);
    if (Listener* const listener = slot.listener.load(std::memory_order_seq_cst); listener != nullptr)
      notify(*listener);
    slot.visitors.fetch_sub(1, std::memory_order_seq_cst);
  });
}

}  // namespace

void released(Range range) noexcept {
  notify_all(range, [range](Listener& listener) { listener.released(range); });
}

void mapped(Range range) noexcept {
  notify_all(range, [range](Listener& listener) { listener.mapped(range); });
}

Releasing::Releasing(Range range) noexcept : place_(kNotCounted) {
  if (range.empty()) return;
  releases_under_way.fetch_add(1, std::memory_order_relaxed);
  place_ = kNoPlace;
  for (std::size_t i = 0; i < releases.size(); ++i) {
    std::uintptr_t expected = 0;
    if (releases[i].begin.load(std::memory_order_relaxed) != 0 ||
        !releases[i].begin.compare_exchange_strong(expected, kTaken, std::memory_order_acquire)) {
      continue;
    }
    releases[i].end.store(range.end, std::memory_order_relaxed);
    releases[i].begin.store(std::max(range.begin, kTaken), std::memory_order_release);
    place_ = static_cast<int>(i);
    return;
  }
  releases_without_place.fetch_add(1, std::memory_order_relaxed);
}

Releasing::~Releasing() {
  if (place_ == kNotCounted) return;
  if (place_ == kNoPlace) {
    releases_without_place.fetch_sub(1, std::memory_order_release);
  } else {
    releases[static_cast<std::size_t>(place_)].begin.store(0, std::memory_order_release);
  }
  releases_under_way.fetch_sub(1, std::memory_order_release);
}

bool being_released(Range range) noexcept {
  if (releases_under_way.load(std::memory_order_acquire) == 0) return false;
  if (releases_without_place.load(std::memory_order_acquire) != 0) return true;
  return std::any_of(releases.begin(), releases.end(), [range](const Place& place) {
    const std::uintptr_t begin = place.begin.load(std::memory_order_acquire);
    return begin != 0 && range.overlaps({begin, place.end.load(std::memory_order_relaxed)});
  });
}

}  // namespace opal::memory
