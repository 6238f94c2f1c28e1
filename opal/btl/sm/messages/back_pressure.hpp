// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/back_pressure.hpp — a sender that sleeps without credit, and the receiver that wakes it.  Every
// module has both roles.  credit_wait.hpp has the protocol.  Owned by Receiver.  Threads: as the module.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/btl/post.hpp"
#include "opal/btl/sm/messages/memory/inbox.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"

namespace opal::btl::sm {

class BackPressure {
 public:
  /// Sets `deferred_work` when a sender sleeps, so that progress() calls wake_sleepers().
  BackPressure(Inbox& inbox, const MessagePeers& peers, bool& deferred_work) noexcept
      : inbox_(inbox), peers_(peers), deferred_work_(deferred_work) {}

  // ---- Sender

  /// Notes the credits that a post lacked.  Returns `again`.
  Post refuse(MessagePeer& to, MissingCredits missing) noexcept;
  /// Before a sleep: writes into the segments which credits refused posts lack.  The caller calls receiver_fence()
  /// next.
  void announce() noexcept;
  /// After announce() and receiver_fence(): true when a credit has returned already.
  [[nodiscard]] bool has_credit() const noexcept;
  /// After a sleep: ends the announcements.  The next refused post notes its credits anew.
  void withdraw() noexcept;

  // ---- Receiver

  /// Adds the senders that sleep for credit.  Bit i of `notified`: a peer whose MessageLink::index is i modulo 32.
  void add_sleepers(std::uint32_t notified) noexcept;
  /// Wakes the senders whose credit has returned.
  void wake_sleepers() noexcept;
  /// True while a sender sleeps for credit of this module.
  [[nodiscard]] bool has_sleepers() const noexcept { return !sleepers_.empty(); }

  /// Removes an endpoint that ends.
  void forget(MessagePeer& peer) noexcept;

 private:
  Inbox& inbox_;
  const MessagePeers& peers_;
  bool& deferred_work_;
  std::vector<MessagePeer*> refused_;    // receivers for which a post was refused since the last announce()
  std::vector<MessagePeer*> announced_;  // receivers that wake this module when they return credit
  std::vector<MessagePeer*> sleepers_;   // senders that sleep until this module returns credit
};

}  // namespace opal::btl::sm
