// SPDX-License-Identifier: Apache-2.0
// Collective operations: a member tells its parent when all participants below it have arrived or are lost; the root
// releases them.
#include "runtime/overlay/node.hpp"

namespace runtime::overlay {

void Node::arrive(const std::string& key, const IdSet& participants, std::int64_t status, std::string data) {
  if (state_ == State::out) return;
  Contribution own{.name = collectives_.next(key),
                   .participants = participants,
                   .covered = IdSet::of(options_.self),
                   .status = status};
  if (!data.empty()) own.parts.emplace_back(options_.self, std::move(data));
  on_contribution(own);
}

void Node::on_contribution(const Contribution& contribution) {
  if (!contribution.participants.valid(options_.count) || !contribution.covered.valid(options_.count)) return;
  if (collectives_.add(contribution) != nullptr) look_at(contribution.name);
}

void Node::recheck() {
  if (state_ != State::out) check_all();
}

/// The participants whose arrival this member waits for before it sends a contribution to its parent.
IdSet Node::responsibility() const {
  IdSet mine{subtree_};
  for (const Id top : moved_) mine.remove(tree_.subtree(top));
  return mine;
}

void Node::look_at(const OperationName& name) {
  Collectives::Operation* const operation = collectives_.find(name);
  if (operation == nullptr) return;
  IdSet mine = responsibility();
  if (!is_root()) mine.remove(lost_);
  // All participants below this member are lost, or contribute by another parent: the Release does not come this way.
  if (!operation->participants.intersects(mine)) return collectives_.drop(name);
  IdSet gone = client_.absent(name.key);
  gone.add(lost_);
  if (!Collectives::complete(*operation, mine, gone)) return;
  if (is_root()) {
    // In order: a member that has arrived at a use has arrived at the one before.
    if (collectives_.is_next(name)) release(name);
    return;
  }
  if (state_ != State::attached || operation->sent == operation->covered) return;
  send_parent(FrameType::contribute, 0, pack(Collectives::to_contribution(name, *operation)));
}

void Node::check_all() {
  for (const OperationName& name : collectives_.names()) look_at(name);
}

/// At the root: ends an operation at which all participants have arrived or are lost.
void Node::release(const OperationName& name) {
  Collectives::Operation operation = std::move(*collectives_.find(name));
  collectives_.end(name);
  Release message{.name = name,
                  .status = operation.status,
                  .lost = operation.participants,
                  .too_large = operation.too_large,
                  .parts = {operation.parts.begin(), operation.parts.end()}};
  message.lost.remove(operation.covered);
  IdSet others = operation.participants;
  others.remove(Range{0, 1});
  send_down(others, static_cast<std::uint16_t>(InternalTopic::release), pack(message));
  if (operation.participants.contains(0)) client_.on_release(message);
  look_at({name.key, name.sequence + 1});
}

/// Members between the root and the participants get the Release too, since they hold contributions.
void Node::on_release(const Down& message) {
  const auto release = unpack<Release>(message.content);
  if (!release) return;
  collectives_.end(release->name);
  if (message.to.contains(options_.self)) client_.on_release(*release);
}

}  // namespace runtime::overlay
