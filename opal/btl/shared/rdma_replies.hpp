// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_replies.hpp — the short messages that one-sided operations need beside their data: answers and
// refusals of the emulation, registrations that are lent, and their return.  Each is sent at once, or after
// back-pressure from progress(), in order.  Bounded per peer.
// Owned by the module's emulation.  Threads: as the module.
#pragma once
#include <cstddef>
#include <deque>
#include <unordered_map>
#include <vector>

#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl {

class Endpoint;
class Module;

class RdmaReplies {
 public:
  /// Sets `busy` when a message has to wait for progress().
  RdmaReplies(Module& module, bool& busy) noexcept : module_(module), busy_(busy) {}

  /// `handle` follows `header`; it may be empty.
  void send(Endpoint& to, Tag tag, ByteSpan header, ByteSpan handle) noexcept;
  void send(Endpoint& to, const wire::Reply& reply) noexcept { send(to, wire::kReply, bytes_of(reply), {}); }
  /// Sends what waits; returns how many went out.
  std::size_t progress() noexcept;
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }
  void endpoint_gone(Endpoint& endpoint) noexcept { waiting_.erase(&endpoint); }

 private:
  struct Message {
    Tag tag;
    std::vector<std::byte> bytes;
  };

  Module& module_;
  bool& busy_;
  std::unordered_map<Endpoint*, std::deque<Message>> waiting_;  // none is empty
};

}  // namespace opal::btl
