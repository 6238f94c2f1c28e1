// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/credit_wait.hpp — how a sender that sleeps without credit is woken.
//
//     sender                                           receiver
//     writes into the segment which value of which     advances a counter (returns credit)
//       counter it waits for
//     sets its bit in the receiver's notifications
//     receiver_fence()                                 sender_fence()
//     reads the counters again; sleeps                 reads the notifications
//
// So either the sender sees the credit, or the receiver sees the bit.  The receiver then compares, and rings the
// sender's doorbell when a counter has reached its value.  Otherwise it reads one word, and only in progress calls that
// received something.
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

/// Whether `counter` has reached `mark`.
constexpr bool is_reached(std::uint32_t counter, std::uint32_t mark) noexcept { return counter - mark < 1U << 31; }
/// A mark that the counter does not reach.
constexpr std::uint32_t never(std::uint32_t counter) noexcept { return counter + (1U << 30); }

/// What a sender waits for; in the segment, written by the sender.
template <class Word, std::size_t Count = kCreditCounters>
struct BasicCreditsWanted {
  using Counters = BasicCreditCounters<Count>;
  enum Kind : std::uint32_t { nothing = 0, in_segment = 1, in_segment_or_fifo = 2 };
  Word kind;
  std::array<Word, Count> marks;

  /// The caller notifies next.
  void announce(const Counters& wanted, bool fifo) noexcept {
    for (std::size_t i = 0; i < Count; ++i) marks[i].store(wanted[i], std::memory_order_relaxed);
    kind.store(fifo ? in_segment_or_fifo : in_segment, std::memory_order_release);
  }
  void withdraw() noexcept { kind.store(nothing, std::memory_order_relaxed); }

  /// Whether the sender waits no more.
  [[nodiscard]] bool is_withdrawn() const noexcept { return kind.load(std::memory_order_acquire) == nothing; }
  /// Whether these counters, or a FIFO that is half empty, are what it wants.
  [[nodiscard]] bool is_satisfied_by(const Counters& counters, bool fifo) const noexcept {
    if (fifo && kind.load(std::memory_order_acquire) == in_segment_or_fifo) return true;
    for (std::size_t i = 0; i < Count; ++i) {
      if (is_reached(counters[i], marks[i].load(std::memory_order_relaxed))) return true;
    }
    return false;
  }
};

}  // namespace opal::btl::sm
