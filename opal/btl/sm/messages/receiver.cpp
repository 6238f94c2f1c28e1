// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/receiver.hpp"

#include "opal/core/log.hpp"

namespace opal::btl::sm {
namespace {

// Polls of a fast box by poll_from(), a few instructions each.  Together they take longer than a short answer, so that
// the caller rarely needs progress().
constexpr int kPollsOfFastBox = 128;

}  // namespace

/// Handles the next message of a fast box.  False: there is none, or the FIFO has a message that was sent before it.
[[gnu::always_inline]] inline bool Receiver::receive_next(MessagePeer& from) noexcept {
  ReceivingHalf& half = from.receiving;
  BoxRecord record{};
  const BoxReader::Look look = half.fast_box.look(record);
  if (look == BoxReader::Look::nothing) return false;
  if (look == BoxReader::Look::garbage) [[unlikely]] {
    peers_.fail(from, {Errc::protocol, 0, "sm fast box: not a record"});
    return false;
  }
  if (record.seq != half.expected_seq) [[unlikely]] {
    if (!half.blocked) blocked_.push_back(&from);
    half.blocked = true;
    return false;
  }
  ++half.expected_seq;
  Delivery delivery{from, record.tag, record.data};
  handlers_.dispatch(delivery);
  half.fast_box.pop(record);
  return true;
}

std::size_t Receiver::receive_from_fast_box(MessagePeer& from, std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget && !from.dead() && receive_next(from)) ++count;
  return count;
}

std::size_t Receiver::poll_from(MessagePeer& from, std::size_t budget) noexcept {
  for (int poll = 0; !from.receiving.fast_box.ready(); ++poll) {
    if (poll == kPollsOfFastBox) return 0;
  }
  fast_boxes_.note_message(from);
  std::size_t count = 0;
  while (count < budget && !from.dead() && receive_next(from)) ++count;
  if (count != 0) [[likely]]
    return_credits();
  return count;
}

void Receiver::take_notifications() noexcept {
  const std::uint64_t notified = inbox_.notifications().exchange(0, std::memory_order_acquire);
  fast_boxes_.unpark_notified(notified);
  if (notified >> 32 != 0) back_pressure_.add_sleepers(static_cast<std::uint32_t>(notified >> 32));
}

std::size_t Receiver::poll_fifo(std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget) {
    const auto item = inbox_.fifo().front();
    if (!item) break;
    count += receive_front(*item, budget - count);
  }
  return count;
}

/// Delivers the records of the sender's fast box that were sent before the FIFO's oldest item, then the item; at most
/// `budget` messages.  If `budget` is too small, the item stays in the FIFO for the next progress call, since a full
/// fast box in one call would delay other senders.  Returns the number of messages; a dropped item counts as one.
std::size_t Receiver::receive_front(wire::FifoItem item, std::size_t budget) noexcept {
  const auto drop = [&]() -> std::size_t {
    inbox_.fifo().drop_front();
    return 1;
  };
  if (item.peer >= MessagePeers::size()) [[unlikely]] {
    log::once(log::Level::error, "sm garbled slot", "btl.sm", "a peer has written an invalid item into the FIFO");
    return drop();
  }
  if (peers_.at(item.peer) == nullptr) peers_.take_new_peers();
  MessagePeer* const from = peers_.at(item.peer);
  if (from == nullptr || from->dead()) return drop();  // a late message of a disconnected or failed peer
  // All messages of the peer's earlier connection are before this one in the FIFO, or in the earlier fast box.
  if (from->accept_deferred) [[unlikely]]
    peers_.report_deferred(*from);
  const MessageLink& link = from->messages();
  const auto fragment = link.in.fragment(item.line);
  if (!fragment) {
    peers_.fail(*from, fragment.error());
    return drop();
  }
  if (fragment->header.size > link.peer_max_send) {
    peers_.fail(*from, {Errc::protocol, 0, "sm fragment: longer than the peer's max_send", fragment->header.size});
    return drop();
  }
  std::size_t count = 0;
  while (fragment->header.seq != from->receiving.expected_seq) {
    if (count == budget) return count;
    if (!from->receiving.has_fast_box() || receive_from_fast_box(*from, 1) == 0) {
      peers_.fail(*from, {Errc::protocol, 0, "sm: a message is missing", from->receiving.expected_seq});
      return count + drop();
    }
    ++count;
  }
  (void)drop();
  receive_fragment(*from, *fragment);
  return count + 1;
}

void Receiver::receive_fragment(MessagePeer& from, const ReceivedFragment& fragment) noexcept {
  if ((fragment.header.flags & wire::kOffersBox) != 0) {
    if (const auto answered = fast_boxes_.answer_offer(from); !answered) peers_.fail(from, answered.error());
  }
  ++from.receiving.expected_seq;
  Delivery delivery{from, fragment.header.tag, fragment.data};
  handlers_.dispatch(delivery);
  from.messages().in.release(fragment.header.size_class);
}

/// Checks the fast boxes whose next record is ahead of the sequence.  If the FIFO is empty, the message before it is
/// missing, and the peer is broken.
void Receiver::check_blocked() noexcept {
  for (MessagePeer* from : blocked_) {
    ReceivingHalf& half = from->receiving;
    half.blocked = false;
    BoxRecord record{};
    const bool waits =
        !from->dead() && half.fast_box.look(record) == BoxReader::Look::record && record.seq != half.expected_seq;
    if (waits && inbox_.fifo().empty()) peers_.fail(*from, {Errc::protocol, 0, "sm: a message is missing", record.seq});
  }
  blocked_.clear();
}

}  // namespace opal::btl::sm
