// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/message_peers.hpp — the endpoints by their index in our FIFO, and what the messages ask of the
// connections.  connections/connections.hpp implements it.  Threads: as the module.
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

  /// Null: no endpoint has this index.
  [[nodiscard]] MessagePeer* at(std::uint32_t index) const noexcept { return by_index_[index]; }
  [[nodiscard]] static constexpr std::uint32_t size() noexcept { return wire::kMaxPeers; }

  /// Adds peers that have connected meanwhile.
  virtual void take_new_peers() noexcept = 0;
  /// Reports a peer whose report was deferred, before its first message.
  virtual void report_deferred(MessagePeer& peer) noexcept = 0;
  /// Fails the endpoint; progress reports it later.
  void fail(MessagePeer& peer, const Error& why) noexcept {
    const btl::Endpoint::SendGuard guard{peer};
    fail_with_send_lock(peer, why);
  }
  virtual void fail_with_send_lock(MessagePeer& peer, const Error& why) noexcept = 0;

 protected:
  MessagePeers() : by_index_(size()) {}
  ~MessagePeers() = default;

  std::vector<MessagePeer*> by_index_;
};

}  // namespace opal::btl::sm
