// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/sending_half.hpp — the sending state of one endpoint: fast box, sequence number, the peer's
// doorbell.  The send lock guards it.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/message_link.hpp"

namespace opal::btl::sm {

/// The credits that refused posts lacked; each of them helps.
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

  /// A message goes by FIFO.  A fast box that rests is tried again after kRest of them.
  void count_rest() noexcept {
    if (rest != 0 && --rest == 0) fast_box.resume();
  }
  /// The FIFO has no credit either: the next post takes the one that has credit first.
  void end_rest() noexcept {
    if (rest == 0) return;
    rest = 0;
    fast_box.resume();
  }
  void begin_rest() noexcept {
    fast_box.rest();
    rest = kRest;
  }
  /// The receiver has accepted an offer.
  void use(const BoxWriter& writer) noexcept {
    fast_box = writer;
    rest = 0;
  }

  static constexpr std::uint32_t kLeastRetries = 64;  // of 20 to 60 ns
  static constexpr std::uint32_t kMostRetries = 1024;
  static constexpr std::uint32_t kRest = 128;  // messages

  BoxWriter fast_box;
  std::uint16_t next_seq = 0;
  bool offer_open = false;                     ///< a fast box is offered and the receiver has not answered
  const std::atomic<std::uint32_t>* sleeping;  ///< the peer's
  std::atomic<std::uint32_t>* box_state;
  bool fences_paid;
  std::atomic<std::uint32_t> woken_sleep{0};  ///< the peer's last sleep that we ended; ending it twice does no harm
  std::uint32_t retries = kLeastRetries;      ///< of a push into a full fast box
  std::uint32_t rest = 0;                     ///< messages by FIFO until a full fast box is tried again
  std::uint32_t sends_till_offer;             ///< messages by FIFO until a fast box is offered (again)
  MissingCredits missing;                     ///< of posts that were refused since arm()
};

}  // namespace opal::btl::sm
