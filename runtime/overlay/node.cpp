// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlay/node.hpp"

#include <algorithm>

namespace runtime::overlay {
namespace {

/// Calls `use` with the body; false when it is garbled.
template <class M, class Use>
bool with(ByteSpan body, Use use) {
  const auto message = unpack<M>(body);
  if (!message) return false;
  use(*message);
  return true;
}

}  // namespace

Node::Node(const Options& options, Port& port, Client& client, Nanoseconds now)
    : options_(options),
      tree_(options.count, options.radix),
      subtree_(tree_.subtree(options.self)),
      port_(port),
      client_(client),
      now_(now),
      beat_due_(now + options.beat) {
  for (const Range& child : tree_.children(options_.self)) adopt(child.begin, 0, now + options_.start);
  if (is_root()) return;
  give_up_ = now + options_.start;
  attach_to(tree_.parent(options_.self));
}

void Node::on_frame(Channel from, ByteSpan bytes, Nanoseconds now) {
  now_ = now;
  FrameHeader header{};
  if (state_ == State::out || !opal::read_object(bytes, header) || header.version != kVersion) return;
  const ByteSpan body = bytes.subspan(sizeof header);
  if (from == parent_channel_ && from != kNone) {
    if (header.attach == attach_) on_parent_frame(header, body);
    return;
  }
  if (FrameType{header.type} == FrameType::attach) {
    with<Attach>(body, [&](const Attach& m) { on_attach(from, header.attach, m); });
    return;
  }
  const auto entry = by_channel_.find(from);
  if (entry != by_channel_.end() && children_.at(entry->second).attach == header.attach) {
    on_child_frame(entry->second, header, body);
  }
}

void Node::on_parent_frame(const FrameHeader& header, ByteSpan body) {
  if (state_ == State::attached) on_parent_sign();
  bool understood = true;
  switch (FrameType{header.type}) {
    case FrameType::attached: understood = with<Attached>(body, [&](const Attached& m) { on_attached(m); }); break;
    case FrameType::refused: understood = with<Refused>(body, [&](const Refused& m) { on_refused(m); }); break;
    case FrameType::down: on_down(header.number, body); break;
    case FrameType::ack: on_up_ack(header.number); break;
    case FrameType::moved: understood = with<Id>(body, [&](Id member) { on_moved(member); }); break;
    case FrameType::lost: understood = with<Lost>(body, [&](const Lost& m) { on_lost(m.member, m.why); }); break;
    default: break;
  }
  if (!understood && state_ != State::out) lose_parent(true);
}

void Node::on_child_frame(Id member, const FrameHeader& header, ByteSpan body) {
  Child& child = children_.at(member);
  child.due = now_ + options_.silence_timeout;
  bool understood = true;
  switch (FrameType{header.type}) {
    case FrameType::up: return on_up(member, header.number, body);
    case FrameType::ack: return on_down_ack(child, header.number);
    case FrameType::contribute:
      understood = with<Contribution>(body, [&](const Contribution& m) { on_contribution(m); });
      break;
    default: break;
  }
  if (understood) return;
  if (const auto still = children_.find(member); still != children_.end()) detach(still->second, Loss::declared);
}

void Node::on_closed(Channel channel, Nanoseconds now) {
  now_ = now;
  if (state_ == State::out || channel == kNone) return;
  if (channel == parent_channel_) {
    parent_channel_ = kNone;
    if (state_ == State::attached) return lose_parent(false);
    return connect_failed(parent_);
  }
  const auto entry = by_channel_.find(channel);
  if (entry != by_channel_.end()) detach(children_.at(entry->second), Loss::closed);
}

Nanoseconds Node::deadline() const noexcept {
  if (state_ == State::out) return UINT64_MAX;
  Nanoseconds due = std::min(beat_due_, ack_due_);
  if (!is_root()) due = std::min(due, parent_due_);
  for (const auto& [member, child] : children_) due = std::min(due, child.due);
  return due;
}

void Node::on_time(Nanoseconds now) {
  now_ = now;
  if (state_ == State::out) return;
  if (const Nanoseconds due = deadline(); now > due) excuse(now - due);
  if (now >= beat_due_) beat();
  if (now >= ack_due_) send_acks();
  if (!is_root() && now >= parent_due_) {
    if (state_ == State::attached) {
      lose_parent(true);
    } else if (state_ == State::waiting) {
      attach_to(0);
    } else {
      attach_failed();
    }
  }
  if (state_ != State::out) check_children();
}

/// Extends the silence timeouts by the time in which this member did not run: frames of its neighbours may wait to be
/// read, or the neighbours have not run either.
void Node::excuse(Nanoseconds late) {
  const auto later = [&](Nanoseconds due) {
    return std::max(due, std::min(due + late, now_ + options_.silence_timeout));
  };
  if (!is_root() && state_ == State::attached) parent_due_ = later(parent_due_);
  for (const auto& [channel, member] : by_channel_) {
    Child& child = children_.at(member);
    child.due = later(child.due);
  }
}

void Node::beat() {
  beat_due_ = now_ + options_.beat;
  if (state_ == State::attached && !is_root()) send_parent(FrameType::heartbeat, 0);
  for (const auto& [channel, member] : by_channel_) send_child(children_.at(member), FrameType::heartbeat, 0);
}

void Node::send_parent(FrameType type, std::uint64_t number, std::string_view body) {
  port_.send(parent_channel_, frame(type, attach_, number, body));
}

void Node::send_child(const Child& child, FrameType type, std::uint64_t number, std::string_view body) const {
  port_.send(child.channel, frame(type, child.attach, number, body));
}

}  // namespace runtime::overlay
