// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/message_peer.hpp — the state of one endpoint for messages: a sending and a receiving half.  In
// each direction, fast box and FIFO share one sequence of numbers.
// Borrows the MessageLink, which must outlive it.  Threads: as the module; send_beside() touches only the sending half.
#pragma once
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/sm/messages/memory/box_state.hpp"
#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/message_link.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace opal::btl::sm {

/// The credits that refused posts lacked.  The return of any one of them ends the wait.
struct MissingCredits {
  bool fast_box = false;
  bool fragments = false;
  bool fifo = false;
  [[nodiscard]] bool any() const noexcept { return fast_box || fragments || fifo; }
};

/// The sending state of one endpoint.  The send lock guards it.
struct SendingHalf {
  SendingHalf(MessageLink& link, std::uint32_t sends_till_offer) noexcept
      : sleeping(&link.inbox.sleeping()),
        box_state(&link.out->box_state()),
        fences_paid(link.fences_paid),
        sends_till_offer(sends_till_offer) {}

  // The fast box rests after it was full: it is suspended, and the next kRest messages go through the FIFO.

  /// Counts a message through the FIFO.
  void count_rest() noexcept {
    if (rest != 0 && --rest == 0) fast_box.resume();
  }
  /// Ends the rest early, when the FIFO has no credit either: the next post tries both.
  void end_rest() noexcept {
    if (rest == 0) return;
    rest = 0;
    fast_box.resume();
  }
  void begin_rest() noexcept {
    fast_box.rest();
    rest = kRest;
  }
  /// Sets the fast box whose offer the receiver has accepted.
  void use(const BoxWriter& writer) noexcept {
    fast_box = writer;
    rest = 0;
  }

  static constexpr std::uint32_t kLeastRetries = 64;  // a retry takes 20 to 60 ns
  static constexpr std::uint32_t kMostRetries = 1024;
  static constexpr std::uint32_t kRest = 128;  // messages

  BoxWriter fast_box;
  std::uint16_t next_seq = 0;                  ///< of the next message, through the fast box or the FIFO
  bool offer_open = false;                     ///< a fast box is offered and the receiver has not answered
  const std::atomic<std::uint32_t>* sleeping;  ///< wire::InboxHeader::sleeping of the peer
  std::atomic<std::uint32_t>* box_state;       ///< wire::SegmentHeader::box_state of the segment to the peer
  bool fences_paid;                            ///< MessageLink::fences_paid
  std::atomic<std::uint32_t> woken_sleep{0};   ///< value of `sleeping` at the last ring of the doorbell
  std::uint32_t retries = kLeastRetries;       ///< limit of retries of a push into a full fast box
  std::uint32_t rest = 0;                      ///< messages through the FIFO until the rest of the fast box ends
  std::uint32_t sends_till_offer;              ///< messages through the FIFO until a fast box is offered (again)
  MissingCredits missing;                      ///< of posts that were refused since the last announce()
};

/// The receiving state of one endpoint.  It has its own cache lines, since other threads may send meanwhile.
struct alignas(kCacheLine) ReceivingHalf {
  enum class FastBox : std::uint8_t { none, polled, parked };

  std::uint16_t expected_seq = 0;   ///< of the next message, from the fast box or the FIFO
  FastBox state = FastBox::none;    ///< authoritative, unlike box_state in the segment, which the peer can write
  bool blocked = false;             ///< the next record of the fast box was sent after a message still in the FIFO
  bool peer_waits = false;          ///< the peer is in BackPressure::sleepers_
  BoxReader fast_box;               ///< valid if has_fast_box()
  std::uint32_t last_progress = 0;  ///< FastBoxes::progress_calls() when the fast box had a message last
  std::uint32_t park_after = 0;     ///< idle limit: progress calls until the fast box may be parked

  [[nodiscard]] bool has_fast_box() const noexcept { return state != FastBox::none; }
};

class MessagePeer : public btl::Endpoint {
 public:
  MessagePeer(btl::Module& module, const PeerId& peer, MessageLink& link, std::uint32_t sends_till_offer) noexcept
      : btl::Endpoint(module, peer), sending(link, sends_till_offer), messages_(&link) {}

  [[nodiscard]] MessageLink& messages() const noexcept { return *messages_; }

  /// Sends through the fast box.  Requires: the caller holds the send lock, if there is one.
  /// False: the box is off, full or closed, or the message is too large; the message was not sent.
  [[nodiscard, gnu::always_inline]] bool push(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    if (!sending.fast_box.push(tag, sending.next_seq, header, payload)) {
      if (!sending.fast_box.full_for(header.size() + payload.size()) || !retry_push(tag, header, payload)) return false;
    }
    sender_fence(sending.fences_paid);
    if (sending.box_state->load(std::memory_order_relaxed) != wire::kBoxPolled) [[unlikely]] {
      if (!notify_receiver()) return false;
    }
    ++sending.next_seq;
    wake_if_asleep();
    return true;
  }

  /// After a message has been published: rings the peer's doorbell if the peer sleeps.
  void wake() noexcept {
    sender_fence(sending.fences_paid);
    wake_if_asleep();
  }

  /// True while the peer sleeps.
  [[nodiscard]] bool is_asleep() const noexcept { return sending.sleeping->load(std::memory_order_relaxed) != 0; }

  /// Marks the peer as failed: every further post fails.  Requires: the caller holds the send lock.
  void end(const Error& why) noexcept {
    mark_dead(why);
    sending.fast_box.turn_off();
  }

  SendingHalf sending;
  ReceivingHalf receiving;
  /// Observer::on_accepted is delayed until on_failed was called for the peer's earlier connection.
  bool accept_deferred = false;

 private:
  /// Repeats the push into a full fast box, at most sending.retries times.  A receiver that empties the box makes room
  /// within microseconds.  To wait for it costs both sides much less than a stream that alternates between fast box and
  /// FIFO.  The limit doubles after a success.  After a failure it is divided by 4, and the next messages use the FIFO.
  [[gnu::noinline]] bool retry_push(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    for (std::uint32_t retry = 0; retry < sending.retries; ++retry) {
      cpu_relax();
      if (sending.fast_box.push(tag, sending.next_seq, header, payload)) {
        sending.retries = std::min(2 * sending.retries, SendingHalf::kMostRetries);
        return true;
      }
      if (!sending.fast_box.on()) return false;
    }
    sending.retries = std::max(sending.retries / 4, SendingHalf::kLeastRetries);
    sending.begin_rest();
    return false;
  }

  /// Called when the receiver does not poll the fast box in which a record has just been published.  False: the fast
  /// box is closed, and the receiver has not read the record.
  [[gnu::noinline]] bool notify_receiver() noexcept {
    switch (notify(*sending.box_state)) {
      case Notice::none: break;
      case Notice::notify:
        messages_->inbox.notify_fast_box(messages_->index_there);
        sender_fence(sending.fences_paid);  // between the notification and the test whether the peer sleeps
        break;
      case Notice::closed: sending.fast_box.turn_off(); return sending.fast_box.all_read();
    }
    return true;
  }

  /// Rings the doorbell, once per sleep.  Requires: the caller has called sender_fence() after it published.
  void wake_if_asleep() noexcept {
    const std::uint32_t sleep = sending.sleeping->load(std::memory_order_relaxed);
    if (sleep != 0 && sleep != sending.woken_sleep.load(std::memory_order_relaxed)) [[unlikely]] {
      sending.woken_sleep.store(sleep, std::memory_order_relaxed);
      (void)::eventfd_write(messages_->doorbell.get(), 1);
    }
  }

  MessageLink* messages_;
};

}  // namespace opal::btl::sm
