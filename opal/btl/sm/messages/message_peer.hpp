// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/message_peer.hpp — one endpoint as the messages see it: a sending and a receiving half, joined
// per direction by the sequence numbers of fast box and FIFO.
// Threads: as the module; send_beside() touches only the sending half.
#pragma once
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/sm/messages/memory/box_state.hpp"
#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/message_link.hpp"
#include "opal/btl/sm/messages/sending_half.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace opal::btl::sm {

/// The receiving state of one endpoint.  It has its own cache lines, since other threads may send meanwhile.
struct alignas(kCacheLine) ReceivingHalf {
  enum class FastBox : std::uint8_t { none, polled, parked };

  std::uint16_t expected_seq = 0;
  FastBox state = FastBox::none;  ///< our own record of box_state, which the peer can write
  bool blocked = false;           ///< the fast box's next record waits for a message of the FIFO
  bool peer_waits = false;        ///< the peer sleeps until we return credit
  BoxReader fast_box;
  std::uint32_t last_progress = 0;  ///< number of the progress call that received from the fast box last
  std::uint32_t park_after = 0;     ///< idle progress calls until the fast box is parked

  [[nodiscard]] bool has_fast_box() const noexcept { return state != FastBox::none; }
};

class MessagePeer : public btl::Endpoint {
 public:
  MessagePeer(btl::Module& module, const PeerId& peer, MessageLink& link, std::uint32_t sends_till_offer) noexcept
      : btl::Endpoint(module, peer), sending(link, sends_till_offer), messages_(&link) {}

  /// Memory and descriptors of the connection.
  [[nodiscard]] MessageLink& messages() const noexcept { return *messages_; }

  /// Sends through the fast box.  False: it is off, full or closed, or the message too large; nothing has happened.
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

  /// The peer has failed: no further post succeeds.  The caller holds the send lock.
  void end(const Error& why) noexcept {
    mark_dead(why);
    sending.fast_box.turn_off();
  }

  SendingHalf sending;
  ReceivingHalf receiving;
  /// on_accepted has not been called: the observer has still to hear of the end of the peer's earlier connection.
  bool accept_deferred = false;

 private:
  /// The fast box is full.  A receiver that empties it has room within microseconds.  Waiting for that costs both sides
  /// much less than a stream that changes between fast box and FIFO.  The limit of retries follows their success.
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

  /// The receiver does not poll the fast box in which a record has just been published.  False: the fast box is closed
  /// and the record was not read.
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

  /// Once per sleep; the caller has passed the fence.
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
