// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/room.hpp — how a sender that sleeps for want of room is woken.
// What a receiver gives back are counters in the segment, which only go forward.  Before it sleeps a sender writes into
// the segment which value of which counter would help it, sets a notification in the receiver's inbox, passes
// receiver_fence(), and looks at the counters once more.  The receiver makes room, then (where the sender's fence is
// not for both, after one of its own) looks at the notifications: so either the sender has seen that room, or the
// receiver sees the notification, compares, and rings the sender's doorbell as soon as a counter is there. While nobody
// sleeps so the receiver looks at one word, and only in rounds in which it has received something. Threads: one sender,
// one receiver. `Word` is std::atomic<std::uint32_t>, or a model's, which has fewer counters.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace opal::btl::sm {

/// The counters of a segment that may bring room: bytes of the box, fragments of each size; modulo 2^32.
inline constexpr std::size_t kRoomCounters = 3;
template <std::size_t Count>
using BasicRoomCounters = std::array<std::uint32_t, Count>;
using RoomCounters = BasicRoomCounters<kRoomCounters>;

/// Whether `counter` has come as far as `mark`.
constexpr bool is_reached(std::uint32_t counter, std::uint32_t mark) noexcept { return counter - mark < 1U << 31; }
/// A mark that the counter does not reach.
constexpr std::uint32_t never(std::uint32_t counter) noexcept { return counter + (1U << 30); }

/// What a sender waits for; in the segment, written by the sender.
template <class Word, std::size_t Count = kRoomCounters>
struct BasicRoomWanted {
  using Counters = BasicRoomCounters<Count>;
  enum Kind : std::uint32_t { nothing = 0, in_segment = 1, in_segment_or_fifo = 2 };
  Word kind;
  std::array<Word, Count> marks;

  /// The caller notifies next.
  void announce(const Counters& wanted, bool fifo) noexcept {
    for (std::size_t i = 0; i < Count; ++i) marks[i].store(wanted[i], std::memory_order_relaxed);
    kind.store(fifo ? in_segment_or_fifo : in_segment, std::memory_order_release);
  }
  void withdraw() noexcept { kind.store(nothing, std::memory_order_relaxed); }

  /// Whether the sender wants nothing any more.
  [[nodiscard]] bool withdrawn() const noexcept { return kind.load(std::memory_order_acquire) == nothing; }
  /// Whether these counters, or a FIFO that is half empty, are what it wants.
  [[nodiscard]] bool satisfied_by(const Counters& counters, bool fifo) const noexcept {
    if (fifo && kind.load(std::memory_order_acquire) == in_segment_or_fifo) return true;
    for (std::size_t i = 0; i < Count; ++i) {
      if (is_reached(counters[i], marks[i].load(std::memory_order_relaxed))) return true;
    }
    return false;
  }
};

}  // namespace opal::btl::sm
