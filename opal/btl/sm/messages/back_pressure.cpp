// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/back_pressure.hpp"

#include <algorithm>
#include <span>

namespace opal::btl::sm {

Post BackPressure::refuse(MessagePeer& to, MissingCredits missing) noexcept {
  MissingCredits& known = to.sending.missing;
  if (!known.any()) refused_.push_back(&to);
  known.fast_box |= missing.fast_box;
  known.fragments |= missing.fragments;
  known.fifo |= missing.fifo;
  return Post::again;
}

void BackPressure::announce() noexcept {
  for (MessagePeer* to : refused_) {
    if (to->dead()) continue;
    MessageLink& link = to->messages();
    OutSegment& segment = *link.out;
    const btl::Endpoint::SendGuard guard{*to};
    CreditCounters marks = segment.returned_credits();
    for (std::uint32_t& mark : marks) mark = never(mark);
    MissingCredits& missing = to->sending.missing;
    if (missing.fragments) segment.fragments().mark(std::span{marks}.subspan<1>());
    if (missing.fast_box) marks[0] = to->sending.fast_box.half_empty_mark();
    segment.credits_wanted().announce(marks, missing.fifo);
    link.inbox.notify_credits_wanted(link.index_there);
    missing = {};
  }
  announced_.insert(announced_.end(), refused_.begin(), refused_.end());
  refused_.clear();
}

bool BackPressure::has_credit() const noexcept {
  return std::ranges::any_of(announced_, [](MessagePeer* to) {
    OutSegment& segment = *to->messages().out;
    return !to->dead() && segment.credits_wanted().is_satisfied_by(segment.returned_credits(),
                                                                   to->messages().inbox.fifo().half_empty());
  });
}

void BackPressure::withdraw() noexcept {
  for (MessagePeer* to : announced_) to->messages().out->credits_wanted().withdraw();
  announced_.clear();
}

void BackPressure::add_sleepers(std::uint32_t notified) noexcept {
  for (std::uint32_t index = 0; index < MessagePeers::size(); ++index) {
    if ((notified >> index % 32 & 1) == 0) continue;
    MessagePeer* const from = peers_.at(index);
    if (from == nullptr || from->receiving.peer_waits || from->dead()) continue;
    if (from->messages().in.credits_wanted().is_withdrawn()) continue;
    from->receiving.peer_waits = true;
    sleepers_.push_back(from);
    deferred_work_ = true;
  }
}

void BackPressure::wake_sleepers() noexcept {
  const bool fifo = inbox_.fifo().half_empty();
  std::erase_if(sleepers_, [&](MessagePeer* from) {
    const InSegment& segment = from->messages().in;
    const auto& wanted = segment.credits_wanted();
    const bool over = from->dead() || wanted.is_withdrawn();
    if (!over && !wanted.is_satisfied_by(segment.returned_credits(), fifo)) return false;
    if (!over) from->wake();
    from->receiving.peer_waits = false;
    return true;
  });
}

void BackPressure::forget(MessagePeer& peer) noexcept {
  std::erase(refused_, &peer);
  std::erase(announced_, &peer);
  std::erase(sleepers_, &peer);
}

}  // namespace opal::btl::sm
