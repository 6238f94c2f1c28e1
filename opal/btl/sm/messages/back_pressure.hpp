// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/back_pressure.hpp — a sender that sleeps without credit, and the receiver that wakes it.
// credit_wait.hpp has the protocol.  Owned by the module.  Threads: as the module.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/btl/post.hpp"
#include "opal/btl/sm/messages/memory/inbox.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"

namespace opal::btl::sm {

class BackPressure {
 public:
  /// `deferred_work` is set when a sender sleeps.
  BackPressure(Inbox& inbox, const MessagePeers& peers, bool& deferred_work) noexcept
      : inbox_(inbox), peers_(peers), deferred_work_(deferred_work) {}

  // ---- Sender

  /// Notes the credits that a post lacked.  Returns `again`.
  Post refuse(MessagePeer& to, MissingCredits missing) noexcept;
  /// Before a sleep: tells the peers which credits end it.  The caller passes receiver_fence() next.
  void announce() noexcept;
  /// After announce() and receiver_fence(): true when a credit has returned already.
  [[nodiscard]] bool has_credit() const noexcept;
  /// After a sleep.  A post that is refused again is noted again.
  void withdraw() noexcept;

  // ---- Receiver

  /// Notes the senders that sleep; bit i: one with index i modulo 32.
  void add_sleepers(std::uint32_t notified) noexcept;
  /// Wakes the senders whose credit has returned.
  void wake_sleepers() noexcept;
  /// True while a sender sleeps for our credit.
  [[nodiscard]] bool has_sleepers() const noexcept { return !sleepers_.empty(); }

  /// The endpoint ends.
  void forget(MessagePeer& peer) noexcept;

 private:
  Inbox& inbox_;
  const MessagePeers& peers_;
  bool& deferred_work_;
  std::vector<MessagePeer*> refused_;    // a post was refused since arm()
  std::vector<MessagePeer*> announced_;  // know that we sleep until they return credit
  std::vector<MessagePeer*> sleepers_;   // sleep until we return credit
};

}  // namespace opal::btl::sm
