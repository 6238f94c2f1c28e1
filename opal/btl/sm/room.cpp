// SPDX-License-Identifier: Apache-2.0
// Senders that sleep for want of room, and the receivers that wake them: room.hpp has the protocol.
#include "opal/btl/sm/messages/room.hpp"

#include <algorithm>
#include <span>

#include "opal/btl/sm/module.hpp"

namespace opal::btl::sm {

// ---- Sender

/// A post has just been refused for want of room in any of these.
Post Module::starve(Endpoint& to, Lacking lacking) noexcept {
  if (!to.lacking_.anything()) starved_.push_back(&to);
  to.lacking_.box |= lacking.box;
  to.lacking_.fragments |= lacking.fragments;
  to.lacking_.fifo |= lacking.fifo;
  return Post::again;
}

void Module::announce_starved() noexcept {
  for (Endpoint* to : starved_) {
    if (to->dead()) continue;
    OutSegment& segment = *to->link_->out;
    const Endpoint::SendGuard guard{*to};
    RoomCounters marks = segment.given_back();
    for (std::uint32_t& mark : marks) mark = never(mark);
    if (to->lacking_.fragments) segment.fragments().mark(std::span{marks}.subspan<1>());
    if (to->lacking_.box) marks[0] = to->box_out_.half_empty_mark();
    segment.room_wanted().announce(marks, to->lacking_.fifo);
    to->link_->inbox.ring_for_room(to->link_->index_there);
    to->lacking_ = {};
  }
  announced_.insert(announced_.end(), starved_.begin(), starved_.end());
  starved_.clear();
}

/// After announce_starved() and receiver_fence().
bool Module::room_has_come() const noexcept {
  return std::any_of(announced_.begin(), announced_.end(), [](Endpoint* to) {
    OutSegment& segment = *to->link_->out;
    return !to->dead() &&
           segment.room_wanted().satisfied_by(segment.given_back(), to->link_->inbox.fifo().half_empty());
  });
}

/// Whoever is refused again, says so again.  Who was refused since arm(), between the end of the sleep and this, stays.
void Module::withdraw_announced() noexcept {
  for (Endpoint* to : announced_) to->link_->out->room_wanted().withdraw();
  announced_.clear();
}

// ---- Receiver

/// Notes those who have notified for room.
void Module::hear_waiting(std::uint32_t notifications) noexcept {
  for (const auto& endpoint : endpoints_) {
    if (endpoint->waits_for_us_ || (notifications >> endpoint->link_->index % 32 & 1) == 0) continue;
    if (endpoint->dead() || endpoint->link_->in.room_wanted().withdrawn()) continue;
    endpoint->waits_for_us_ = true;
    waiting_.push_back(endpoint.get());
    unsettled_ = true;
  }
}

/// Wakes those who have got what they want.
void Module::wake_waiting() noexcept {
  const bool fifo = inbox_.fifo().half_empty();
  std::erase_if(waiting_, [&](Endpoint* from) {
    const auto& wanted = from->link_->in.room_wanted();
    const bool over = from->dead() || wanted.withdrawn();
    if (!over && !wanted.satisfied_by(from->link_->in.given_back(), fifo)) return false;
    if (!over) from->wake();
    from->waits_for_us_ = false;
    return true;
  });
}

}  // namespace opal::btl::sm
