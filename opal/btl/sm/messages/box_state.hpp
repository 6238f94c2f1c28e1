// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/box_state.hpp — whether the receiver looks at a fast box, decided without the sender's help.
//
//     polled --park--> parked --take_back--> closed     by the receiver; closed ends this grant
//       ^                |
//       |              notify                           by the sender, after it has published a record
//       |                v
//       +--unpark--- notified                           by the receiver
//
// The receiver parks a box that has been idle, so that it costs nothing, and may take back a parked one.  It says
// `parked`, passes everybody's fence (core/sync/asymmetric_fence.hpp), and looks once more; a sender publishes and then
// looks at the state.  So either the receiver has seen the record, or the sender sees that nobody looks.  It then
// rings, or finds the box taken back.  Then the ring's counter, final by now, tells whether the record had been read
// before the parking; if not, it never will be, and the message takes the other way, with the same sequence number. In
// steady state a sender pays for this with one load of a line that nobody writes. Threads: one sender, one receiver.
// `Word` is std::atomic<std::uint32_t>, or a model's.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/btl/sm/messages/wire.hpp"

namespace opal::btl::sm {

/// What a sender has to do when the state was not `polled` after it has published a record.
enum class Notice : std::uint8_t {
  none,       ///< the receiver looks by itself
  ring,       ///< wake the receiver's interest in this box: its notification
  taken_back  ///< the record has been read before, or never will be: the ring's counter tells
};

template <class Word>
[[nodiscard]] Notice notify(Word& state) noexcept {
  std::uint32_t seen = wire::kBoxParked;
  if (state.compare_exchange_strong(seen, wire::kBoxNotified, std::memory_order_acq_rel, std::memory_order_acquire)) {
    return Notice::ring;
  }
  return seen == wire::kBoxPolled || seen == wire::kBoxNotified ? Notice::none : Notice::taken_back;
}

/// Says that nobody looks.  The caller passes receiver_fence() and looks at the box before it believes that.
template <class Word>
void park(Word& state) noexcept {
  state.store(wire::kBoxParked, std::memory_order_relaxed);
}

/// Whether the sender of a parked box has notified.
template <class Word>
[[nodiscard]] bool is_notified(const Word& state) noexcept {
  return state.load(std::memory_order_acquire) == wire::kBoxNotified;
}

/// From `parked` or `notified`: the receiver looks again.
template <class Word>
void unpark(Word& state) noexcept {
  state.store(wire::kBoxPolled, std::memory_order_relaxed);
}

/// Ends the grant of a parked, empty box whose reader has given back everything.  False: the sender has just notified.
template <class Word>
[[nodiscard]] bool take_back(Word& state) noexcept {
  std::uint32_t seen = wire::kBoxParked;
  return state.compare_exchange_strong(seen, wire::kBoxClosed, std::memory_order_acq_rel, std::memory_order_relaxed);
}

}  // namespace opal::btl::sm
