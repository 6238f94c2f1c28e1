// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/sending_half.hpp — the sending state of one endpoint: fast box, sequence number, the peer's
// doorbell.  The send lock guards it.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/message_link.hpp"

namespace opal::btl::sm {

/// The credits that refused posts lacked.  The return of any one of them ends the wait.
struct MissingCredits {
  bool fast_box = false;
  bool fragments = false;
  bool fifo = false;
  [[nodiscard]] bool any() const noexcept { return fast_box || fragments || fifo; }
};

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

}  // namespace opal::btl::sm
