// SPDX-License-Identifier: Apache-2.0
// The receiving half of a shared-memory module.  Box and FIFO of one peer are one stream, joined by sequence numbers:
// whatever comes out of turn waits until the other one has delivered what was sent before; since both are published in
// order, that is already there, and if it is not, the peer is broken.
#include "opal/btl/sm/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::sm {
std::size_t Module::receive_from_box(Endpoint& from, std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget && !from.dead()) {
    BoxRecord record{};
    const BoxReader::Look look = from.box_in_.look(record);
    if (look == BoxReader::Look::nothing) break;
    if (look == BoxReader::Look::garbage) [[unlikely]] {
      fail(from, {Errc::protocol, 0, "sm fast box: not a record"});
      break;
    }
    if (record.seq != from.expected_seq_) {
      if (!from.blocked_) blocked_.push_back(&from);
      from.blocked_ = true;
      break;
    }
    ++from.expected_seq_;
    Delivery delivery{from, record.tag, record.data};
    host().handlers.dispatch(delivery);
    from.box_in_.pop(record);
    ++count;
  }
  return count;
}

std::size_t Module::poll_fifo(std::size_t budget) noexcept {
  std::size_t count = 0;
  while (count < budget) {
    const auto item = inbox_.fifo().pop();
    if (!item) break;
    receive_item(*item);
    ++count;
  }
  return count;
}

void Module::receive_item(wire::FifoItem item) noexcept {
  if (item.peer >= by_index_.size()) [[unlikely]] {
    log::once(log::Level::error, "sm garbled slot", "btl.sm", "a peer has written nonsense into the FIFO");
    return;
  }
  if (by_index_[item.peer] == nullptr && doorman_->has_news()) hear_news();  // a peer that has just connected
  Endpoint* const from = by_index_[item.peer];
  if (from == nullptr || from->dead()) return;  // the last words of somebody we do not talk to any more
  // What the peer had said in an earlier life lies before this in the FIFO, or in its box.
  if (from->unannounced_) [[unlikely]]
    announce(*from);
  const auto fragment = from->link_->in.fragment(item.line);
  if (!fragment) {
    fail(*from, fragment.error());
    return;
  }
  if (fragment->header.size > from->link_->peer_max_send) {
    fail(*from, {Errc::protocol, 0, "sm fragment: longer than the peer said", fragment->header.size});
    return;
  }
  while (fragment->header.seq != from->expected_seq_) {
    if (from->has_box_in() && receive_from_box(*from, 1) != 0) continue;
    fail(*from, {Errc::protocol, 0, "sm: a message is missing", from->expected_seq_});
    return;
  }
  if ((fragment->header.flags & wire::kOffersBox) != 0) look_at_offer(*from);
  ++from->expected_seq_;
  Delivery delivery{*from, fragment->header.tag, fragment->data};
  host().handlers.dispatch(delivery);
  from->link_->in.release(fragment->header.size_class);
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
