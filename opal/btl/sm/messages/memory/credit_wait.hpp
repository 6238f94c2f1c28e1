// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/credit_wait.hpp — how a sender that sleeps without credit is woken.
//
//     sender                                           receiver
//     announce(): writes the counter values that it    advances a counter (returns credit)
//       waits for into the segment
//     sets its bit in the receiver's notifications
//     receiver_fence()                                 sender_fence()
//     reads the counters again; sleeps                 reads the notifications
//
// So either the sender sees the credit, or the receiver sees the bit.  The receiver then compares, and rings the
// sender's doorbell when a counter has reached its value.  Without sleepers the receiver pays one fence and one load of
// the notifications, only in progress calls that received messages.
// Threads: one sender, one receiver.  `Word` is std::atomic<std::uint32_t>, or a model's, which has fewer counters.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace opal::btl::sm {

/// The counters of a segment that return credit: bytes of the fast box, fragments of each size; modulo 2^32.
inline constexpr std::size_t kCreditCounters = 3;
template <std::size_t Count>
using BasicCreditCounters = std::array<std::uint32_t, Count>;
using CreditCounters = BasicCreditCounters<kCreditCounters>;

/// True when `counter` has reached `mark`, modulo 2^32.
constexpr bool is_reached(std::uint32_t counter, std::uint32_t mark) noexcept { return counter - mark < 1U << 31; }
/// A mark that the counter does not reach during one sleep: 2^30 ahead of `counter`.
constexpr std::uint32_t never(std::uint32_t counter) noexcept { return counter + (1U << 30); }

/// The credits that a sleeping sender waits for.  It lies in the segment; the sender writes it.
template <class Word, std::size_t Count = kCreditCounters>
struct BasicCreditsWanted {
  using Counters = BasicCreditCounters<Count>;
  enum Kind : std::uint32_t { nothing = 0, in_segment = 1, in_segment_or_fifo = 2 };
  Word kind;                      ///< a Kind
  std::array<Word, Count> marks;  ///< one of the counters must reach its mark

  /// Sets the marks.  `fifo`: a half empty FIFO ends the wait, too.  The caller sets its notification bit next.
  void announce(const Counters& wanted, bool fifo) noexcept {
    for (std::size_t i = 0; i < Count; ++i) marks[i].store(wanted[i], std::memory_order_relaxed);
    kind.store(fifo ? in_segment_or_fifo : in_segment, std::memory_order_release);
  }
  void withdraw() noexcept { kind.store(nothing, std::memory_order_relaxed); }

  /// True when the sender does not wait.
  [[nodiscard]] bool is_withdrawn() const noexcept { return kind.load(std::memory_order_acquire) == nothing; }
  /// True when one of `counters` has reached its mark, or the FIFO is half empty (`fifo`) and the sender waits for
  /// that.
  [[nodiscard]] bool is_satisfied_by(const Counters& counters, bool fifo) const noexcept {
    if (fifo && kind.load(std::memory_order_acquire) == in_segment_or_fifo) return true;
    for (std::size_t i = 0; i < Count; ++i) {
      if (is_reached(counters[i], marks[i].load(std::memory_order_relaxed))) return true;
    }
    return false;
  }
};

}  // namespace opal::btl::sm
