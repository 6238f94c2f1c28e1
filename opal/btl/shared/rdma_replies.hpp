// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_replies.hpp — sends the short answers of one-sided operations: Reply, Lent and LentReturn, and
// the requests and answers of smcuda.  Each is sent at once, or queued under back-pressure and sent by progress().
// Messages to one peer keep their order.  The queue is bounded per peer.  Owned by the module's RdmaEmulation.
// Threads: as the module.
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
  /// `busy` is set when a message is queued; it is never cleared here.
  RdmaReplies(Module& module, bool& busy) noexcept : module_(module), busy_(busy) {}

  /// Sends or queues `header` and behind it `handle`, which may be empty.  Copies both.
  /// Drops the message if the endpoint is dead, or with a warning if too many are queued for it.
  void send(Endpoint& to, Tag tag, ByteSpan header, ByteSpan handle) noexcept;
  void send(Endpoint& to, const wire::Reply& reply) noexcept { send(to, wire::kReply, bytes_of(reply), {}); }
  /// Sends queued messages; returns their number.
  std::size_t progress() noexcept;
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }
  /// Drops the messages queued for `endpoint`.
  void endpoint_gone(Endpoint& endpoint) noexcept { waiting_.erase(&endpoint); }

 private:
  struct Message {
    Tag tag;
    std::vector<std::byte> bytes;
  };

  Module& module_;
  bool& busy_;
  std::unordered_map<Endpoint*, std::deque<Message>> waiting_;  // no queue is empty
};

}  // namespace opal::btl
