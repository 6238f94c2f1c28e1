// SPDX-License-Identifier: Apache-2.0
// runtime/oob/sender.hpp — cuts messages into pieces that the transport takes.  Threads: as the endpoint's Context.
#pragma once
#include <deque>
#include <string>

#include "opal/am/endpoint.hpp"
#include "opal/core/export.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

/// The unsent rest of messages to one peer, in order.  Never blocks.
class OPAL_EXPORT Sender {
 public:
  static constexpr std::size_t kQueueLimit = 2 * kLargestMessage;  ///< bytes that wait for a slow peer

  explicit Sender(opal::am::Endpoint& to) noexcept : to_(to) {}

  /// Sends what fits now and keeps a copy of the rest.  Errors: limit_reached (message or queue too long), peer_gone.
  Result<void> send(Topic topic, ByteSpan content);

  /// Sends more of what waits; false while some is left.  Errors: peer_gone.
  Result<bool> advance();

  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }

 private:
  struct Message {
    Topic topic;
    std::string content;
    std::uint64_t sent = 0;
    bool started = false;
  };
  /// Sends pieces from `sent` on; true when all are out.
  Result<bool> send_pieces(Topic topic, ByteSpan content, std::uint64_t& sent, bool& started);

  opal::am::Endpoint& to_;
  std::deque<Message> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace runtime::oob
