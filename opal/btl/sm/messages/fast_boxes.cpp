// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/fast_boxes.hpp"

#include "opal/btl/sm/messages/memory/box_state.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace opal::btl::sm {
namespace {

// Number of fast boxes that are never parked.  To poll a few idle ones costs less than the fence that parks them and
// the notification that ends the parking.
constexpr std::size_t kAlwaysPolled = 4;
// Maximum of ReceivingHalf::park_after, which each unpark doubles.  It bounds how often a sender that sends rarely
// causes a fence.
constexpr std::uint32_t kMostIdle = 1 << 16;

}  // namespace

void FastBoxes::park_idle() noexcept {
  if (polled_.size() > kAlwaysPolled) park(polled_.size() - kAlwaysPolled, 0);
}

/// Parks at most `most` fast boxes that were idle for their limit of progress calls, or for `least_idle` if that is not
/// 0.  One fence serves all of them.
void FastBoxes::park(std::size_t most, std::uint32_t least_idle) noexcept {
  const std::size_t before = parked_.size();
  std::erase_if(polled_, [&](MessagePeer* from) {
    ReceivingHalf& half = from->receiving;
    const std::uint32_t enough = least_idle != 0 ? least_idle : half.park_after;
    if (parked_.size() - before == most || progress_calls_ - half.last_progress < enough) return false;
    sm::park(from->messages().in.box_state());
    half.state = ReceivingHalf::FastBox::parked;
    parked_.push_back(from);
    return true;
  });
  if (parked_.size() == before) return;
  // After the fence, each sender sees that its fast box is parked, or its record is visible to the poll below.
  receiver_fence(fences_);
  for (std::size_t i = before; i < parked_.size();) {
    if (parked_[i]->receiving.fast_box.ready()) {
      unpark_at(i);
    } else {
      ++i;
    }
  }
}

void FastBoxes::unpark_at(std::size_t index) noexcept {
  MessagePeer& from = *parked_[index];
  parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(index));  // the others stay in the order of parking
  unpark(from.messages().in.box_state());
  ReceivingHalf& half = from.receiving;
  half.state = ReceivingHalf::FastBox::polled;
  half.last_progress = progress_calls_;
  half.park_after = std::min(half.park_after * 2, kMostIdle);
  polled_.push_back(&from);
}

void FastBoxes::unpark_notified(std::uint64_t notified) noexcept {
  for (std::size_t i = 0; i < parked_.size();) {
    const MessageLink& link = parked_[i]->messages();
    if ((notified >> link.index % 32 & 1) != 0 && is_notified(link.in.box_state())) {
      unpark_at(i);
    } else {
      ++i;
    }
  }
}

/// Returns true when a fast box of `size` bytes can be accepted.  Closes parked ones for it, in the order of parking.
bool FastBoxes::make_room(std::uint32_t size) noexcept {
  const auto full = [&] { return accepted() >= most_ || bytes_ + size > most_bytes_; };
  if (size > most_bytes_) return false;
  if (!full()) return true;
  if (parked_.empty()) park(1, kSweep);
  for (std::size_t i = 0; i < parked_.size() && full();) {
    MessagePeer& from = *parked_[i];
    from.receiving.fast_box.finish();
    if (!close_parked(from.messages().in.box_state())) {
      ++i;  // its sender has just notified
      continue;
    }
    forget(from);
  }
  return !full();
}

Result<void> FastBoxes::answer_offer(MessagePeer& from) noexcept {
  InSegment& segment = from.messages().in;
  OPAL_TRY_ASSIGN(const BoxReader fast_box, segment.offered_box());
  ReceivingHalf& half = from.receiving;
  if (half.has_fast_box()) return Error{Errc::protocol, 0, "sm fast box: a second one"};
  const bool accepted = make_room(fast_box.capacity());
  if (accepted) {
    half.fast_box = fast_box;
    half.state = ReceivingHalf::FastBox::polled;
    half.last_progress = progress_calls_;
    half.park_after = kSweep;
    bytes_ += fast_box.capacity();
    polled_.push_back(&from);
  }
  segment.reply_to_offer(accepted);
  return {};
}

void FastBoxes::forget(MessagePeer& peer) noexcept {
  ReceivingHalf& half = peer.receiving;
  if (!half.has_fast_box()) return;
  std::erase(half.state == ReceivingHalf::FastBox::polled ? polled_ : parked_, &peer);
  half.state = ReceivingHalf::FastBox::none;
  bytes_ -= half.fast_box.capacity();
}

}  // namespace opal::btl::sm
