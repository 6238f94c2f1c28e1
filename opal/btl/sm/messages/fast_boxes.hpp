// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/fast_boxes.hpp — the fast boxes that a module has accepted: polled, parked, closed for others.
// A progress call costs one load per polled fast box.  A parked one costs nothing until its sender notifies.
// box_state.hpp has the protocol.  Owned by the module.  Threads: as the module.
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
  /// `fences`: this process pays for the fences of its senders.
  FastBoxes(const Config& config, bool fences) noexcept
      : most_(config.fbox_max), most_bytes_(config.fbox_max * config.fbox_size.bytes), fences_(fences) {}

  /// The peers whose fast box is polled.  It may grow while a handler runs.
  [[nodiscard]] const std::vector<MessagePeer*>& polled() const noexcept { return polled_; }
  /// Number of accepted fast boxes, polled or parked.
  [[nodiscard]] std::size_t accepted() const noexcept { return polled_.size() + parked_.size(); }
  [[nodiscard]] bool any_ready() const noexcept {
    return std::any_of(polled_.begin(), polled_.end(),
                       [](const MessagePeer* from) { return from->receiving.fast_box.ready(); });
  }
  /// A polled fast box has a message.
  void note_message(MessagePeer& from) const noexcept { from.receiving.last_progress = progress_calls_; }

  /// Counts progress calls; true at every kSweep-th, when rare work is due.
  bool count_progress() noexcept { return ++progress_calls_ % kSweep == 0; }
  /// Number of progress calls, modulo 2^32.
  [[nodiscard]] std::uint32_t progress_calls() const noexcept { return progress_calls_; }

  /// Parks fast boxes that were idle.  For every kSweep-th progress call.
  void park_idle() noexcept;
  /// Polls the parked fast boxes whose senders have notified, also if a FIFO message has brought out their record
  /// already; bit i: one with index i modulo 32.
  void poll_notified(std::uint64_t notified) noexcept;
  /// Accepts or refuses the fast box that the peer offers.  Errors: protocol.
  Result<void> answer_offer(MessagePeer& from) noexcept;
  /// The endpoint ends.
  void forget(MessagePeer& peer) noexcept;

 private:
  /// Progress calls between two sweeps.  A fast box that was idle for as many may be parked.
  static constexpr std::uint32_t kSweep = 1024;

  void park(std::size_t most, std::uint32_t least_idle) noexcept;
  void unpark_at(std::size_t place) noexcept;
  bool make_place(std::uint32_t size) noexcept;

  const std::size_t most_;
  const std::uint64_t most_bytes_;  // a sender chooses the size of its fast box
  const bool fences_;
  std::vector<MessagePeer*> polled_;
  std::vector<MessagePeer*> parked_;  // the one parked longest first
  std::uint64_t bytes_ = 0;           // of the rings of both
  std::uint32_t progress_calls_ = 0;
};

}  // namespace opal::btl::sm
