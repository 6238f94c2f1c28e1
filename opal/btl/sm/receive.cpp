// SPDX-License-Identifier: Apache-2.0
// The receiving half of a shared-memory module.  Box and FIFO of one peer are one stream, joined by sequence numbers:
// whatever comes out of turn waits until the other one has delivered what was sent before; since both are published in
// order, that is already there, and if it is not, the peer is broken.
#include "opal/btl/sm/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::sm {
namespace {

// Of a few instructions each, where a message is awaited: together longer than a short answer takes, so that the round
// which follows is rarely what it waits for.
constexpr int kLooksAtBox = 128;

}  // namespace

/// Handles the next message of a box; false when there is none, or it is not its turn.
[[gnu::always_inline]] inline bool Module::receive_next(Endpoint& from) noexcept {
  BoxRecord record{};
  const BoxReader::Look look = from.box_in_.look(record);
  if (look == BoxReader::Look::nothing) return false;
  if (look == BoxReader::Look::garbage) [[unlikely]] {
    fail(from, {Errc::protocol, 0, "sm fast box: not a record"});
    return false;
  }
  if (record.seq != from.expected_seq_) [[unlikely]] {
    if (!from.blocked_) blocked_.push_back(&from);
    from.blocked_ = true;
    return false;
  }
  ++from.expected_seq_;
  Delivery delivery{from, record.tag, record.data};
  host().handlers.dispatch(delivery);
  from.box_in_.pop(record);
  return true;
}

std::size_t Module::receive_from_box(Endpoint& from, std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget && !from.dead() && receive_next(from)) ++count;
  return count;
}

std::size_t Module::progress_from(btl::Endpoint& awaited, std::size_t budget) noexcept {
  auto& from = static_cast<Endpoint&>(awaited);
  if (in_progress_ || armed_ || from.box_kind_ != Endpoint::BoxIn::polled) [[unlikely]]
    return 0;
  for (int look = 0; !from.box_in_.ready(); ++look) {
    if (look == kLooksAtBox) return 0;
  }
  in_progress_ = true;
  from.box_heard_ = round_;
  std::size_t count = 0;
  while (count < budget && !from.dead() && receive_next(from)) ++count;
  if (count != 0) [[likely]]
    look_who_waits_for_room();
  in_progress_ = false;
  return count;
}

std::size_t Module::poll_fifo(std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget) {
    const auto item = inbox_.fifo().front();
    if (!item) break;
    count += receive_front(*item, budget - count);
  }
  return count;
}

/// Delivers the FIFO's oldest item, and before it the records of its sender's box that were sent before; at most
/// `budget` messages.  If that is not enough the item stays for the next round: a receiver that took in all that a full
/// box holds would have to keep it, and meanwhile its senders would wait.
std::size_t Module::receive_front(wire::FifoItem item, std::size_t budget) noexcept {
  const auto drop = [&]() -> std::size_t {
    inbox_.fifo().drop_front(item);
    return 1;
  };
  if (item.peer >= by_index_.size()) [[unlikely]] {
    log::once(log::Level::error, "sm garbled slot", "btl.sm", "a peer has written nonsense into the FIFO");
    return drop();
  }
  if (by_index_[item.peer] == nullptr && connections_->has_events())
    handle_connection_events();  // a peer that has just connected
  Endpoint* const from = by_index_[item.peer];
  if (from == nullptr || from->dead()) return drop();  // the last words of somebody we do not talk to any more
  // What the peer had said in an earlier life lies before this in the FIFO, or in its box.
  if (from->unannounced_) [[unlikely]]
    announce(*from);
  const auto fragment = from->link_->in.fragment(item.line);
  if (!fragment) {
    fail(*from, fragment.error());
    return drop();
  }
  if (fragment->header.size > from->link_->peer_max_send) {
    fail(*from, {Errc::protocol, 0, "sm fragment: longer than the peer said", fragment->header.size});
    return drop();
  }
  std::size_t count = 0;
  while (fragment->header.seq != from->expected_seq_) {
    if (count == budget) return count;
    if (!from->has_box_in() || receive_from_box(*from, 1) == 0) {
      fail(*from, {Errc::protocol, 0, "sm: a message is missing", from->expected_seq_});
      return count + drop();
    }
    ++count;
  }
  (void)drop();
  receive_fragment(*from, *fragment);
  return count + 1;
}

void Module::receive_fragment(Endpoint& from, const ReceivedFragment& fragment) noexcept {
  if ((fragment.header.flags & wire::kOffersBox) != 0) look_at_offer(from);
  ++from.expected_seq_;
  Delivery delivery{from, fragment.header.tag, fragment.data};
  host().handlers.dispatch(delivery);
  from.link_->in.release(fragment.header.size_class);
}

/// Boxes whose next record was out of turn: if nothing is left in the FIFO, what they wait for does not exist.
void Module::check_blocked() noexcept {
  for (Endpoint* from : blocked_) {
    from->blocked_ = false;
    BoxRecord record{};
    const bool waits =
        !from->dead() && from->box_in_.look(record) == BoxReader::Look::record && record.seq != from->expected_seq_;
    if (waits && inbox_.fifo().empty()) fail(*from, {Errc::protocol, 0, "sm: a message is missing", record.seq});
  }
  blocked_.clear();
}

}  // namespace opal::btl::sm
