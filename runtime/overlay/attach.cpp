// SPDX-License-Identifier: Apache-2.0
// The places of the members in the tree: attaching to a parent, adopting and losing children, and the decision which
// members count as lost (docs/design/overlay.md).
//
// Upwards, State:
//   attaching  an Attach was sent to parent_; its answer must come by parent_due_
//   attached   parent_ has answered; its next frame must come by parent_due_
//   waiting    all members above were tried; the root is tried again at parent_due_
//   out        lost, or no member above was reached by give_up_; final
// A failed attempt goes on with the parent of the member tried.
//
// Downwards, a member is in children_ while this member is responsible for it:
//   with a channel     it is attached; without a frame until Child::due it loses its channel
//   without a channel  it is awaited; at Child::due it is reported to the root as lost
// It leaves children_ when it counts as lost, or has a parent above this member (then it is in the
// subtree of a member of moved_).
#include <algorithm>

#include "runtime/overlay/node.hpp"

namespace runtime::overlay {
namespace {

constexpr unsigned kAttemptsPerGrace = 4;

}  // namespace

// --- Upwards

void Node::close_parent_channel() {
  if (parent_channel_ != kNone) port_.close(std::exchange(parent_channel_, kNone));
}

/// Starts an attempt to attach to `member`, or to the next living member above it.
void Node::attach_to(Id member) {
  while (member != 0 && lost_.contains(member)) member = tree_.parent(member);
  close_parent_channel();
  parent_ = member;
  state_ = State::attaching;
  // At the start all members wait longer: a slow one is there, and giving it up early only costs time.
  parent_due_ = now_ + (fresh_ ? options_.grace : options_.grace / kAttemptsPerGrace);
  parent_channel_ = port_.connect(member);
  if (parent_channel_ == kNone) return connect_failed(member);
  ++attach_;
  Attach message{options_.self, down_received_, up_first_, fresh_, {}};
  message.moved.assign(moved_.begin(), moved_.end());
  send_parent(FrameType::attach, 0, pack(message));
}

/// The attempt has failed: tries the parent of the member tried; tries the root again until give_up_.
void Node::attach_failed() {
  close_parent_channel();
  if (now_ >= give_up_) return leave("no daemon above it in the tree can be reached");
  if (parent_ != 0) return attach_to(tree_.parent(parent_));
  state_ = State::waiting;
  parent_due_ = now_ + options_.grace / kAttemptsPerGrace;
}

/// The connection to `member` cannot be made, or has ended before the answer.  A root does not restart: if `member` is
/// the root, this member gives up after Options::grace.
void Node::connect_failed(Id member) {
  if (member == 0) give_up_ = std::min(give_up_, now_ + options_.grace);
  attach_failed();
}

/// Handles the loss of the parent.  If only the connection ended, the same parent is tried once more; a silent parent
/// is not.
void Node::lose_parent(bool silent) {
  give_up_ = now_ + options_.silence_timeout + options_.grace;
  if (silent) return attach_failed();
  attach_to(parent_);
}

/// The attached parent lives.
void Node::on_parent_sign() {
  parent_due_ = root_stopped_ && parent_ == 0 ? UINT64_MAX : now_ + options_.silence_timeout;
}

void Node::on_root_stopped(bool stopped, Nanoseconds now) {
  root_stopped_ = stopped;
  acknowledge(now);
  if (state_ == State::attached) on_parent_sign();
}

void Node::leave(const char* why) {
  state_ = State::out;
  close_parent_channel();
  for (const auto& [channel, member] : by_channel_) port_.close(channel);
  by_channel_.clear();
  children_.clear();
  client_.on_out(why);
}

/// The parent has accepted this member.  It also tells which members are lost or have moved; that comes first, since it
/// may show that this member is lost or needs another parent.
void Node::on_attached(const Attached& message) {
  if (state_ != State::attaching || !message.lost.valid(options_.count)) return;
  state_ = State::attached;
  fresh_ = false;
  collectives_.reset_sent();
  on_parent_sign();
  for (const Id member : message.moved) on_moved(member);
  for (const Range& range : message.lost.ranges()) {
    for (Id member = range.begin; member != range.end && state_ != State::out; ++member) {
      on_lost(member, Loss::declared);
    }
  }
  if (state_ != State::attached) return;
  // The new parent gets all messages that are not acknowledged.
  up_sent_ = up_first_ - 1;
  up_flight_ = 0;
  pump_up();
  down_acked_ = 0;
  ack_later();
  check_all();
}

void Node::on_refused(const Refused& message) {
  if (message.why == Refusal::expelled) return leave("the root counts it as lost");
  attach_failed();
}

// --- Downwards

/// The child whose subtree contains `member` (perhaps the child itself); null when no child's does.
Node::Child* Node::covering(Id member) noexcept {
  for (auto entry = children_.upper_bound(member); entry != children_.begin();) {
    --entry;
    if (entry->second.subtree.contains(member)) return &entry->second;
  }
  return nullptr;
}

/// True when a member above this one is responsible for `member`.
bool Node::has_moved(Id member) const noexcept {
  return std::any_of(moved_.begin(), moved_.end(), [&](Id top) { return tree_.subtree(top).contains(member); });
}

/// Makes this member responsible for the subtree of `member`, which has acknowledged the messages of the root up to
/// `down_acked` and must attach by `due`.
Node::Child& Node::adopt(Id member, std::uint64_t down_acked, Nanoseconds due) {
  Child& child = children_[member];
  child.subtree = tree_.subtree(member);
  child.down_acked = child.down_sent = down_acked;
  child.due = due;
  return child;
}

/// `member` asks to become a child.  Accepted: a child, awaited or attached before, and a member of a child's subtree,
/// which has left its parent there.
void Node::on_attach(Channel from, std::uint32_t attach, const Attach& message) {
  const Id member = message.member;
  const auto refuse = [&](Refusal why) { port_.send(from, frame(FrameType::refused, attach, 0, pack(Refused{why}))); };
  if (member == options_.self || !subtree_.contains(member)) return refuse(Refusal::elsewhere);
  if (lost_.contains(member)) return refuse(Refusal::expelled);
  if (has_moved(member)) return refuse(Refusal::elsewhere);
  auto entry = children_.find(member);
  if (entry != children_.end() && attach <= entry->second.attach) return;  // overtaken by a later attempt
  if (entry == children_.end()) {
    // It has left a parent below this member, which may be alive.  Messages that the subtree of that parent has not
    // acknowledged are still here.
    Child* const former = covering(member);
    if (former == nullptr) return refuse(Refusal::elsewhere);
    if (former->channel != kNone) send_child(*former, FrameType::moved, 0, pack(member));
    adopt(member, former->down_acked, 0);
    entry = children_.find(member);
  }
  Child& child = entry->second;
  if (child.channel != kNone) {
    by_channel_.erase(child.channel);
    if (child.channel != from) port_.close(child.channel);
  }
  by_channel_[from] = member;
  child.channel = from;
  if (child.attach == 0) child.up_received = child.up_ackable = message.first_unacked - 1;
  child.attach = attach;
  child.due = now_ + options_.silence_timeout;
  child.up_acked = message.first_unacked - 1;
  child.down_sent = std::max(message.down_received, child.down_acked);
  count_flight(child);

  // Members of its subtree that the child is not responsible for: they have parents above this member, or are children
  // of this member.
  Attached answer{{}, lost_};
  for (const Id top : moved_) {
    if (child.subtree.contains(top)) answer.moved.push_back(top);
  }
  for (const auto& [other, ignored] : children_) {
    if (other != member && child.subtree.contains(other)) answer.moved.push_back(other);
  }
  send_child(child, FrameType::attached, 0, pack(answer));
  // Members that have left `member` for a parent above it attach here too.
  for (const Id top : message.moved) {
    if (!child.subtree.contains(top) || top == member || children_.contains(top) || lost_.contains(top)) continue;
    if (!has_moved(top)) adopt(top, child.down_acked, now_ + options_.grace);
  }
  if (!message.fresh || tree_.parent(member) != options_.self) report(InternalTopic::report_moved, member, attach);
  ack_later();
  pump_down(children_.at(member));
}

/// `member` of this subtree now has a parent above this member.  That parent is responsible for the subtree of
/// `member`.
void Node::on_moved(Id member) {
  if (member == options_.self || !subtree_.contains(member) || has_moved(member)) return;
  if (!children_.contains(member)) {
    const Child* const former = covering(member);
    if (former != nullptr && former->channel != kNone) {
      send_child(*former, FrameType::moved, 0, pack(member));
    }
  }
  moved_.insert(member);
  const Range gone = tree_.subtree(member);
  std::vector<Id> dropped;
  for (const auto& [id, child] : children_) {
    if (gone.contains(id)) dropped.push_back(id);
  }
  for (const Id id : dropped) {
    if (id != member) report(InternalTopic::report_left, id, children_.at(id).attach);
    drop_child(id);
  }
  trim_down();
  check_all();
}

/// This member is not responsible for `member` any more.
void Node::drop_child(Id member) {
  const auto entry = children_.find(member);
  if (entry->second.channel != kNone) {
    by_channel_.erase(entry->second.channel);
    port_.close(entry->second.channel);
  }
  children_.erase(entry);
}

/// The child is out of reach.  It has Options::grace to attach again, here or elsewhere.
void Node::detach(Child& child, Loss why) {
  by_channel_.erase(child.channel);
  if (why != Loss::closed) port_.close(child.channel);
  child.missed = why;
  child.channel = kNone;
  child.due = now_ + options_.grace;
}

void Node::check_children() {
  std::vector<Id> due;
  for (const auto& [member, child] : children_) {
    if (now_ >= child.due) due.push_back(member);
  }
  for (const Id member : due) {
    if (state_ != State::out) on_child_due(member);
  }
}

void Node::on_child_due(Id member) {
  const auto entry = children_.find(member);
  if (entry == children_.end() || now_ < entry->second.due) return;
  Child& child = entry->second;
  if (child.channel != kNone) return detach(child, Loss::silent);
  child.due = now_ + options_.grace;  // reported again then: the root ignores it while it records another parent
  report(InternalTopic::report_lost, member, child.attach, child.missed);
}

// --- What the root decides

/// Informs the root about `member`, whose last attempt to attach here was `attach`.
void Node::report(InternalTopic topic, Id member, std::uint32_t attach, Loss why) {
  const Report message{member, attach, why};
  if (is_root()) return on_report(0, topic, message);
  send_up(static_cast<std::uint16_t>(topic), pack(message));
}

/// At the root: places_ has the last parent of each member that has moved, and the number of that attempt.
void Node::on_report(Id reporter, InternalTopic topic, const Report& report) {
  if (report.member == 0 || report.member >= options_.count) return;
  if (topic == InternalTopic::report_moved) {
    Place& place = places_[report.member];
    if (report.attach > place.attach) place = {report.attach, reporter};
    return;
  }
  const auto place = places_.find(report.member);
  if (topic == InternalTopic::report_left) {
    if (place != places_.end() && place->second.parent == reporter) places_.erase(place);
    return;
  }
  // Ignored if the member has attached to another parent since.
  const bool elsewhere = place != places_.end() && report.attach < place->second.attach &&
                         place->second.parent != reporter && !lost_.contains(place->second.parent);
  if (!elsewhere) on_lost(report.member, report.why);
}

void Node::declare_lost(Id member, Loss why, Nanoseconds now) {
  now_ = now;
  if (member != 0) on_lost(member, why);
}

/// Awaits the children of `lost`, a lost child: for Options::grace, or Options::start if the child never attached.
void Node::await_children_of(Id lost, const Child& former) {
  for (const Range& child : tree_.children(lost)) {
    if (lost_.contains(child.begin)) {
      await_children_of(child.begin, former);
    } else if (!children_.contains(child.begin) && !has_moved(child.begin)) {
      adopt(child.begin, former.down_acked, now_ + (former.attach == 0 ? options_.start : options_.grace));
    }
  }
}

/// `member` counts as lost from now on.  The children of a lost child are awaited here.
void Node::on_lost(Id member, Loss why) {
  if (member == options_.self) return leave("the root counts it as lost");
  if (member == 0 || member >= options_.count || lost_.contains(member)) return;
  lost_.add(member);
  // Before queued messages, which may depend on the lost member.
  for (const auto& [channel, child] : by_channel_) {
    send_child(children_.at(child), FrameType::lost, 0, pack(Lost{member, why}));
  }
  if (const auto entry = children_.find(member); entry != children_.end()) {
    const Child former = entry->second;
    if (former.channel != kNone) send_child(former, FrameType::refused, 0, pack(Refused{Refusal::expelled}));
    drop_child(member);
    await_children_of(member, former);
    trim_down();
  }
  if (!is_root() && member == parent_ && state_ == State::attached) {
    lose_parent(true);
  }
  client_.on_lost(member, why);
  check_all();
}

}  // namespace runtime::overlay
