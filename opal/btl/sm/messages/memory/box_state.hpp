// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/box_state.hpp — whether the receiver polls a fast box.
//
//     polled --park--> parked --close_parked--> closed     by the receiver; the sender offers the box again later
//       ^                |
//       |              notify                       by the sender, after it has published a record
//       |                v
//       +--unpark--- notified                       by the receiver
//
// The receiver stores `parked`, calls receiver_fence() (core/sync/asymmetric_fence.hpp) and polls once more.  A sender
// publishes a record, calls sender_fence() and then loads the state.  So either the receiver sees the record, or the
// sender sees that the fast box is not polled.  If the box is closed, `box_released` has its final value and shows
// whether the receiver has read the record.  An unread record is lost: the sender sends the message through the FIFO
// with the same sequence number.  While the box is polled, a sender pays one load of a line that nothing writes.
// Threads: one sender, one receiver.  `Word` is std::atomic<std::uint32_t>, or a model's.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/btl/sm/messages/memory/wire.hpp"

namespace opal::btl::sm {

/// What a sender has to do when the state was not `polled` after it has published a record.
enum class Notice : std::uint8_t {
  none,    ///< the receiver polls the fast box
  notify,  ///< set the bit of this fast box in the receiver's notifications
  closed   ///< the receiver reads no further record: BoxWriter::all_read() tells whether it has read this one
};

/// The sender's step; see Notice.
template <class Word>
[[nodiscard]] Notice notify(Word& state) noexcept {
  std::uint32_t seen = wire::kBoxParked;
  if (state.compare_exchange_strong(seen, wire::kBoxNotified, std::memory_order_acq_rel, std::memory_order_acquire)) {
    return Notice::notify;
  }
  return seen == wire::kBoxPolled || seen == wire::kBoxNotified ? Notice::none : Notice::closed;
}

/// The receiver stops polling.  The caller calls receiver_fence() next and polls once more.
template <class Word>
void park(Word& state) noexcept {
  state.store(wire::kBoxParked, std::memory_order_relaxed);
}

/// True when the sender of a parked box has notified.
template <class Word>
[[nodiscard]] bool is_notified(const Word& state) noexcept {
  return state.load(std::memory_order_acquire) == wire::kBoxNotified;
}

/// From `parked` or `notified`: the receiver polls again.
template <class Word>
void unpark(Word& state) noexcept {
  state.store(wire::kBoxPolled, std::memory_order_relaxed);
}

/// Closes a parked fast box.  Requires: BoxReader::finish() was called.  False: the sender has just notified.
template <class Word>
[[nodiscard]] bool close_parked(Word& state) noexcept {
  std::uint32_t seen = wire::kBoxParked;
  return state.compare_exchange_strong(seen, wire::kBoxClosed, std::memory_order_acq_rel, std::memory_order_relaxed);
}

}  // namespace opal::btl::sm
