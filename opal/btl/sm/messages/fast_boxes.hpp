// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/fast_boxes.hpp — the fast boxes that a module has accepted: it polls them, parks idle
// ones, and closes parked ones to make room for new ones.
// A progress call costs one load per polled fast box.  A parked one costs nothing until its sender notifies.
// box_state.hpp has the protocol.  Owned by Receiver.  Threads: as the module.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/messages/message_peer.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sm {

class FastBoxes {
 public:
  /// `fences`: this process also executes the fences of its senders (core/sync/asymmetric_fence.hpp).
  FastBoxes(const Config& config, bool fences) noexcept
      : most_(config.fbox_max), most_bytes_(config.fbox_max * config.fbox_size.bytes), fences_(fences) {}

  /// The peers whose fast box is polled.  It may grow while a handler runs.
  [[nodiscard]] const std::vector<MessagePeer*>& polled() const noexcept { return polled_; }
  /// Number of accepted fast boxes, polled or parked.
  [[nodiscard]] std::size_t accepted() const noexcept { return polled_.size() + parked_.size(); }
  [[nodiscard]] bool any_ready() const noexcept {
    return std::ranges::any_of(polled_, [](const MessagePeer* from) { return from->receiving.fast_box.ready(); });
  }
  /// Call when a fast box has a message: its idle time starts at this progress call.
  void note_message(MessagePeer& from) const noexcept { from.receiving.last_progress = progress_calls_; }

  /// Counts progress calls, the unit of idle time.  True at every kSweep-th: the caller then runs park_idle() and other
  /// rare checks.
  bool count_progress() noexcept { return ++progress_calls_ % kSweep == 0; }
  /// Number of progress calls, modulo 2^32.
  [[nodiscard]] std::uint32_t progress_calls() const noexcept { return progress_calls_; }

  /// Parks fast boxes that were idle for their limit of progress calls; a few always stay polled.
  void park_idle() noexcept;
  /// Makes the parked fast boxes polled whose senders have notified.  The record may have been received already, to
  /// keep the order with the FIFO.  Bit i (0 to 31) of `notified`: a peer whose MessageLink::index is i modulo 32;
  /// other bits are ignored.
  void unpark_notified(std::uint64_t notified) noexcept;
  /// Writes into the peer's segment whether the offered fast box is accepted; full is no error.  Errors: protocol (an
  /// invalid offer, or a second fast box).
  Result<void> answer_offer(MessagePeer& from) noexcept;
  /// Removes the peer's fast box, if it has one: the endpoint ends, or the box was closed.
  void forget(MessagePeer& peer) noexcept;

 private:
  /// Progress calls between two sweeps, and the first idle limit of a fast box; each unpark doubles its limit.
  static constexpr std::uint32_t kSweep = 1024;

  void park(std::size_t most, std::uint32_t least_idle) noexcept;
  void unpark_at(std::size_t index) noexcept;
  bool make_room(std::uint32_t size) noexcept;

  const std::size_t most_;
  const std::uint64_t most_bytes_;  // limit of bytes_, since a sender chooses the size of its fast box
  const bool fences_;
  std::vector<MessagePeer*> polled_;
  std::vector<MessagePeer*> parked_;  // in the order of parking, the earliest first
  std::uint64_t bytes_ = 0;           // of the rings in polled_ and parked_
  std::uint32_t progress_calls_ = 0;
};

}  // namespace opal::btl::sm
