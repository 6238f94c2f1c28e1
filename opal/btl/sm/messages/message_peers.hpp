// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/message_peers.hpp — the endpoints by MessageLink::index, and the functions of the connections
// that messages/ calls.  connections/connections.hpp implements it.  Threads: as the module.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/btl/sm/messages/memory/wire.hpp"
#include "opal/btl/sm/messages/message_peer.hpp"

namespace opal::btl::sm {

class MessagePeers {
 public:
  MessagePeers(const MessagePeers&) = delete;
  MessagePeers& operator=(const MessagePeers&) = delete;

  /// The endpoint with this index; null: none.  Requires: index < size().
  [[nodiscard]] MessagePeer* at(std::uint32_t index) const noexcept { return by_index_[index]; }
  [[nodiscard]] static constexpr std::uint32_t size() noexcept { return wire::kMaxPeers; }

  /// Makes the endpoints of peers that have connected since the last call.
  virtual void take_new_peers() noexcept = 0;
  /// Calls Observer::on_accepted for a peer with accept_deferred.  Call before its first message is handled.
  virtual void report_deferred(MessagePeer& peer) noexcept = 0;
  /// Fails the endpoint.  A later progress call ends its operations and calls Observer::on_failed.
  void fail(MessagePeer& peer, const Error& why) noexcept {
    const btl::Endpoint::SendGuard guard{peer};
    fail_with_send_lock(peer, why);
  }
  /// As fail().  Requires: the caller holds the send lock, if there is one.
  virtual void fail_with_send_lock(MessagePeer& peer, const Error& why) noexcept = 0;

 protected:
  MessagePeers() : by_index_(size()) {}
  ~MessagePeers() = default;

  std::vector<MessagePeer*> by_index_;
};

}  // namespace opal::btl::sm
