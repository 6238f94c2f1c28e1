// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/receiver.hpp — receives active messages.
// Fast box and FIFO of one peer share sequence numbers and form one stream.  A message waits in its source until the
// other source has delivered all messages with smaller numbers.  The sender publishes in order, so those messages are
// visible already.  If one is missing, the peer is broken.
//
// Owns the inbox, the accepted fast boxes and the back-pressure of a module by value: progress() needs no indirection.
// Threads: as the module.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "opal/btl/handlers.hpp"
#include "opal/btl/sm/messages/back_pressure.hpp"
#include "opal/btl/sm/messages/fast_boxes.hpp"
#include "opal/btl/sm/messages/memory/inbox.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace opal::btl::sm {

class Receiver {
 public:
  /// `fences`: this process executes the fences of its senders.  Sets `deferred_work` when a sender sleeps.
  Receiver(Inbox inbox, const Config& config, bool fences, HandlerTable& handlers, MessagePeers& peers,
           bool& deferred_work) noexcept
      : inbox_(std::move(inbox)),
        fast_boxes_(config, fences),
        back_pressure_(inbox_, peers, deferred_work),
        handlers_(handlers),
        peers_(peers) {}
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  [[nodiscard]] Inbox& inbox() noexcept { return inbox_; }
  [[nodiscard]] const FastBoxes& fast_boxes() const noexcept { return fast_boxes_; }
  [[nodiscard]] BackPressure& back_pressure() noexcept { return back_pressure_; }

  /// Polls every source once.  Receives at most min(budget, 32) messages from each fast box, then from the FIFO what is
  /// left of `budget`, at least 8.  Adds the number of messages to `count`.
  void poll(std::size_t budget, std::size_t& count) noexcept {
    read_notifications();
    const std::vector<MessagePeer*>& polled = fast_boxes_.polled();
    for (std::size_t i = 0; i < polled.size(); ++i) {  // by index: a handler may add elements
      MessagePeer& from = *polled[i];
      if (!from.receiving.fast_box.ready()) continue;
      fast_boxes_.note_message(from);
      count += receive_from_fast_box(from, std::clamp<std::size_t>(budget, 1, kMostFromFastBox));
    }
    if (!inbox_.fifo().empty()) count += poll_fifo(std::max(budget - std::min(count, budget), kLeastFromFifo));
    if (!blocked_.empty()) [[unlikely]]
      check_blocked();
  }

  /// Ends a progress call.  Every 1024th repairs the FIFO's hint and parks idle fast boxes.
  void end_progress() noexcept {
    if (fast_boxes_.count_progress()) [[unlikely]] {
      inbox_.fifo().heal();
      fast_boxes_.park_idle();
    }
  }

  /// Polls the fast box of one peer for a short time and receives at most `budget` messages.  Returns their number.
  /// Requires: the fast box is polled.
  std::size_t poll_from(MessagePeer& from, std::size_t budget) noexcept;
  /// Receives all messages in the peer's fast box.
  void drain_fast_box(MessagePeer& from) noexcept {
    while (from.receiving.has_fast_box() && receive_from_fast_box(from, SIZE_MAX) != 0) {
    }
  }

  /// After messages have been received: finds senders that sleep until credit returns (credit_wait.hpp).
  void return_credits() noexcept {
    sender_fence(all_fences_paid_);
    read_notifications();
  }
  void read_notifications() noexcept {
    if (inbox_.is_notified()) [[unlikely]]
      take_notifications();
  }

  /// Adds a new peer.
  void add(const MessagePeer& peer) noexcept { all_fences_paid_ = all_fences_paid_ && peer.messages().fences_paid; }
  /// Removes an endpoint that ends.
  void forget(MessagePeer& peer) noexcept {
    fast_boxes_.forget(peer);
    back_pressure_.forget(peer);
    std::erase(blocked_, &peer);
  }

  [[nodiscard]] bool has_messages() const noexcept {
    return inbox_.is_notified() || !inbox_.fifo().empty() || fast_boxes_.any_ready();
  }

 private:
  static constexpr std::size_t kLeastFromFifo = 8;     // per progress call, also if fast boxes have used up the budget
  static constexpr std::size_t kMostFromFastBox = 32;  // per progress call and peer, so that one does not delay others

  void take_notifications() noexcept;
  std::size_t poll_fifo(std::size_t budget) noexcept;
  std::size_t receive_from_fast_box(MessagePeer& from, std::size_t budget) noexcept;
  bool receive_next(MessagePeer& from) noexcept;
  std::size_t receive_front(wire::FifoItem item, std::size_t budget) noexcept;
  void receive_fragment(MessagePeer& from, const ReceivedFragment& fragment) noexcept;
  void check_blocked() noexcept;

  Inbox inbox_;
  FastBoxes fast_boxes_;
  BackPressure back_pressure_;
  HandlerTable& handlers_;
  MessagePeers& peers_;
  std::vector<MessagePeer*> blocked_;  // peers with ReceivingHalf::blocked
  bool all_fences_paid_ = true;        // MessageLink::fences_paid of every peer that was ever added
};

}  // namespace opal::btl::sm
