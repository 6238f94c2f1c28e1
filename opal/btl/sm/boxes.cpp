// SPDX-License-Identifier: Apache-2.0
// The fast boxes that a module has accepted: which ones it looks at, which ones it parks, whom it takes one from.
// A round costs one load per polled box and one for the notifications; an idle box is parked and costs nothing until it
// rings.
#include <algorithm>

#include "opal/btl/sm/messages/box_state.hpp"
#include "opal/btl/sm/module.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace opal::btl::sm {
namespace {

// Looking at a few idle boxes is cheaper than the fence that parks them and the notification that brings them back.
constexpr std::size_t kAlwaysPolled = 4;
// A box that rings soon after it was parked is given twice the time, up to here: at most one fence per so many rounds.
constexpr std::uint32_t kMostIdleRounds = 1 << 16;

}  // namespace

void Module::park_some() noexcept {
  if (boxes_.size() > kAlwaysPolled) park_idle(boxes_.size() - kAlwaysPolled, 0);
}

/// Parks at most `most` boxes that have been idle for their limit of rounds, or at least `least_idle` if that is less;
/// one fence for all of them.
void Module::park_idle(std::size_t most, std::uint32_t least_idle) noexcept {
  const std::size_t before = parked_.size();
  std::erase_if(boxes_, [&](Endpoint* from) {
    const std::uint32_t enough = least_idle != 0 ? least_idle : from->box_idle_limit_;
    if (parked_.size() - before == most || round_ - from->box_heard_ < enough) return false;
    park(from->link_->in.box_state());
    from->box_kind_ = Endpoint::BoxIn::parked;
    parked_.push_back(from);
    return true;
  });
  if (parked_.size() == before) return;
  // After it each sender either sees that its box is parked, or has published what we look for next.
  receiver_fence(local_.fences());
  for (std::size_t i = before; i < parked_.size();) {
    if (parked_[i]->box_in_.ready()) {
      unpark_box(i);
    } else {
      ++i;
    }
  }
}

void Module::unpark_box(std::size_t place) noexcept {
  Endpoint& from = *parked_[place];
  parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(place));  // the others stay in the order of parking
  unpark(from.link_->in.box_state());
  from.box_kind_ = Endpoint::BoxIn::polled;
  from.box_heard_ = round_;
  from.box_idle_limit_ = std::min(from.box_idle_limit_ * 2, kMostIdleRounds);
  boxes_.push_back(&from);
}

/// Polls the parked boxes whose senders have notified, also if a message of the FIFO has brought out their record
/// already; sees to senders that sleep for want of room.
void Module::answer_notifications() noexcept {
  const std::uint64_t notifications = inbox_.notifications().exchange(0, std::memory_order_acquire);
  for (std::size_t i = 0; i < parked_.size();) {
    const Endpoint& from = *parked_[i];
    if ((notifications >> from.link_->index % 32 & 1) != 0 && is_notified(from.link_->in.box_state())) {
      unpark_box(i);
    } else {
      ++i;
    }
  }
  if (notifications >> 32 != 0) hear_waiting(static_cast<std::uint32_t>(notifications >> 32));
}

/// Whether a box of `size` bytes may be accepted; takes parked ones back for it, the one parked longest first.
bool Module::room_for_box(std::uint32_t size) noexcept {
  const std::uint64_t most = config_.fbox_max * config_.fbox_size.bytes;  // the sender has chosen the size of its box
  const auto full = [&] { return boxes_in() >= config_.fbox_max || box_bytes_ + size > most; };
  if (size > most) return false;
  if (!full()) return true;
  if (parked_.empty()) park_idle(1, kSweepRounds);
  for (std::size_t i = 0; i < parked_.size() && full();) {
    Endpoint& from = *parked_[i];
    from.box_in_.finish();
    if (!take_back(from.link_->in.box_state())) {
      ++i;  // it has just notified
      continue;
    }
    forget_box(from);
  }
  return !full();
}

void Module::look_at_offer(Endpoint& from) noexcept {
  auto box = from.link_->in.offered_box();
  if (!box || from.has_box_in()) {
    fail(from, box ? Error{Errc::protocol, 0, "sm fast box: a second one"} : box.error());
    return;
  }
  const bool accepted = room_for_box(box->capacity());
  if (accepted) {
    from.box_in_ = *box;
    from.box_kind_ = Endpoint::BoxIn::polled;
    from.box_heard_ = round_;
    from.box_idle_limit_ = kSweepRounds;
    box_bytes_ += box->capacity();
    boxes_.push_back(&from);
  }
  from.link_->in.answer(accepted);
}

void Module::forget_box(Endpoint& endpoint) noexcept {
  if (!endpoint.has_box_in()) return;
  std::erase(endpoint.box_kind_ == Endpoint::BoxIn::polled ? boxes_ : parked_, &endpoint);
  endpoint.box_kind_ = Endpoint::BoxIn::none;
  box_bytes_ -= endpoint.box_in_.capacity();
}

}  // namespace opal::btl::sm
