// SPDX-License-Identifier: Apache-2.0
// The two streams.  Up: each member numbers what it passes on, own or not; a parent acknowledges what the root has.
// Down: the root numbers; a child acknowledges what all of its subtree has that it was for.  So a member that has not
// got an acknowledgement holds everything that the loss of the members between it and the other end could lose.
#include <algorithm>

#include "runtime/overlay/node.hpp"

namespace runtime::overlay {
namespace {

constexpr std::size_t kAcksPerWindow = 4;

}  // namespace

/// True when a message must wait.  Below a quarter of the window it never waits, since such bytes are acknowledged
/// late.
bool Node::is_full(std::size_t flight, std::size_t size) const noexcept {
  return flight > options_.window / kAcksPerWindow && flight + size > options_.window;
}

// --- Up

void Node::send_up(std::uint16_t topic, std::string_view content) {
  if (state_ == State::out) return;
  const Up message{options_.self, ++own_sequence_, topic, oob::as_bytes(content)};
  push_up({std::make_shared<const std::string>(pack(message)), 0, 0});
}

void Node::push_up(UpItem item) {
  up_.push_back(std::move(item));
  pump_up();
}

void Node::pump_up() {
  if (state_ != State::attached) return;
  while (up_sent_ + 1 < up_first_ + up_.size()) {
    const Body& body = up_[up_sent_ + 1 - up_first_].body;
    if (is_full(up_flight_, body->size())) return;
    up_flight_ += body->size();
    send_parent(FrameType::up, ++up_sent_, *body);
  }
}

void Node::on_up(Id from, std::uint64_t number, ByteSpan body) {
  Child& child = children_.at(from);
  if (number <= child.up_received) return;  // told again after it attached again
  if (number != child.up_received + 1) return detach(child, Loss::declared);
  child.up_received = number;
  if (!is_root()) return push_up({std::make_shared<const std::string>(oob::as_text(body)), from, number});
  child.up_ackable = number;
  child.up_unacked += body.size();
  if (child.up_unacked > options_.window / kAcksPerWindow) {
    ack_child(child);
  } else {
    ack_later();
  }
  deliver_up(body);  // last: it may change anything
}

void Node::deliver_up(ByteSpan body) {
  const auto message = unpack<Up>(body);
  if (!message || message->origin == 0 || message->origin >= options_.count) return;
  if (lost_.contains(message->origin)) return;
  std::uint64_t& heard = heard_of_[message->origin];
  if (message->sequence <= heard) return;  // came by a parent that was lost, too
  // Each route brings a member's messages without gaps; a neighbour that makes one is not reliable.
  if (message->sequence != heard + 1) return declare_lost(message->origin, Loss::declared, now_);
  heard = message->sequence;
  if (message->topic >= kFirstUserTopic) {
    return client_.on_up(message->origin, message->topic, message->content);
  }
  const auto report = unpack<Report>(message->content);
  if (report) on_report(message->origin, InternalTopic{message->topic}, *report);
}

void Node::on_up_ack(std::uint64_t number) {
  while (!up_.empty() && up_first_ <= std::min(number, up_sent_)) {
    const UpItem& item = up_.front();
    up_flight_ -= item.body->size();
    if (const auto child = children_.find(item.child); child != children_.end()) {
      child->second.up_ackable = std::max(child->second.up_ackable, item.child_number);
    }
    up_.pop_front();
    ++up_first_;
  }
  for (const auto& [channel, member] : by_channel_) ack_child(children_.at(member));
  pump_up();
}

// --- Down

void Node::send_down(const IdSet& to, std::uint16_t topic, std::string_view content) {
  ++down_received_;
  push_down(to, pack(Down{to, topic, oob::as_bytes(content)}));
}

void Node::on_down(std::uint64_t number, ByteSpan body) {
  if (number <= down_received_) return ack_later();
  const auto message = unpack<Down>(body);
  if (!message || !message->to.valid(options_.count)) return lose_parent(true);
  down_received_ = number;
  push_down(message->to, std::string{oob::as_text(body)});
  down_unacked_ += body.size();
  if (down_unacked_ > options_.window / kAcksPerWindow) {
    ack_parent();
  } else {
    ack_later();
  }
  own_down(*message);  // last: it may change anything
}

void Node::own_down(const Down& message) {
  if (message.topic >= kFirstUserTopic) {
    if (message.to.contains(options_.self)) client_.on_down(message.topic, message.content);
    return;
  }
  if (InternalTopic{message.topic} == InternalTopic::release) on_release(message);
}

/// Keeps a message for those below that it is for, and sends it to them.
void Node::push_down(const IdSet& to, std::string body) {
  down_.push_back({down_received_, to, std::make_shared<const std::string>(std::move(body))});
  for (const auto& [channel, member] : by_channel_) pump_down(children_.at(member));
  trim_down();
}

/// True when a receiver of the message is reached through this child.  Members below it that are children of this
/// member or have a parent above it are not.
bool Node::concerns(const DownItem& item, Id member, const Child& child) const noexcept {
  if (!item.to.intersects(child.subtree)) return false;
  const auto next = std::next(children_.find(member));
  const bool nested = next != children_.end() && child.subtree.contains(next->first);
  if (!nested && moved_.empty() && lost_.empty()) return true;
  IdSet left = item.to.within(child.subtree);
  for (auto other = next; other != children_.end() && child.subtree.contains(other->first); ++other) {
    left.remove(other->second.subtree);
  }
  for (const Id top : moved_) left.remove(tree_.subtree(top));
  left.remove(lost_);  // one that had its own link is not below this child again because it is lost
  return !left.empty();
}

void Node::pump_down(Child& child) {
  if (child.channel == kNone) return;
  const Id member = child.subtree.begin;
  auto item = std::upper_bound(down_.begin(), down_.end(), child.down_sent,
                               [](std::uint64_t sent, const DownItem& each) { return sent < each.number; });
  for (; item != down_.end(); ++item) {
    if (concerns(*item, member, child)) {
      if (is_full(child.down_flight, item->body->size())) return;
      child.down_flight += item->body->size();
      send_child(child, FrameType::down, item->number, *item->body);
    }
    child.down_sent = item->number;
  }
}

/// Recomputes the bytes in flight to a child, since concerns() changes with the tree.
void Node::count_flight(Child& child) {
  child.down_flight = 0;
  for (const DownItem& item : down_) {
    if (item.number > child.down_sent) break;
    if (item.number > child.down_acked && concerns(item, child.subtree.begin, child)) {
      child.down_flight += item.body->size();
    }
  }
}

void Node::on_down_ack(Child& child, std::uint64_t number) {
  number = std::min(number, child.down_sent);
  if (number <= child.down_acked) return;
  child.down_acked = number;
  trim_down();
  count_flight(child);
  pump_down(child);
  ack_parent();
}

/// Removes the messages that all children concerned have acknowledged.
void Node::trim_down() {
  while (!down_.empty()) {
    const DownItem& first = down_.front();
    const bool wanted = std::any_of(children_.begin(), children_.end(), [&](const auto& entry) {
      return entry.second.down_acked < first.number && concerns(first, entry.first, entry.second);
    });
    if (wanted) break;
    down_.pop_front();
    ack_later();
  }
}

bool Node::down_settled() const noexcept {
  return std::all_of(by_channel_.begin(), by_channel_.end(), [this](const auto& entry) {
    const Child& child = children_.at(entry.second);
    return std::none_of(down_.begin(), down_.end(), [&](const DownItem& item) {
      return item.number > child.down_acked && concerns(item, entry.second, child);
    });
  });
}

// --- Acknowledgements

std::uint64_t Node::down_ackable() const noexcept { return down_.empty() ? down_received_ : down_.front().number - 1; }

void Node::ack_later() {
  if (ack_due_ == UINT64_MAX) ack_due_ = now_ + options_.ack_delay;
}

void Node::acknowledge(Nanoseconds now) {
  now_ = now;
  if (state_ != State::out) send_acks();
}

void Node::send_acks() {
  ack_due_ = UINT64_MAX;
  ack_parent();
  for (const auto& [channel, member] : by_channel_) ack_child(children_.at(member));
}

void Node::ack_parent() {
  if (is_root() || state_ != State::attached || down_ackable() <= down_acked_) return;
  down_acked_ = down_ackable();
  down_unacked_ = 0;
  send_parent(FrameType::ack, down_acked_);
}

void Node::ack_child(Child& child) {
  if (child.channel == kNone || child.up_ackable <= child.up_acked) return;
  child.up_acked = child.up_ackable;
  child.up_unacked = 0;
  send_child(child, FrameType::ack, child.up_acked);
}

}  // namespace runtime::overlay
