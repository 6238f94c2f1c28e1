// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/overflow.hpp — control messages for endpoints that queue am_pending_limit bytes already.
// Messages to one endpoint keep their order.  Messages to an endpoint that has failed are dropped.
// Owned by an Engine, whose progress retries.  Threads: under the Context's lock.
#pragma once
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "mpi_shim/p2p/stalled.hpp"
#include "opal/am/endpoint.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::p2p {

class Overflow : public Stalled {
 public:
  Overflow() noexcept : Stalled{[](Stalled& self) noexcept { return static_cast<Overflow&>(self).retry(); }} {}

  /// Sends the message, of at most max_send bytes, or queues it.  False: this object keeps it and must be retried.
  bool post(opal::am::Endpoint& to, opal::Tag tag, opal::ByteSpan header, opal::ByteSpan payload) noexcept {
    if (!holds(messages_, to) && attempt(to, tag, header, payload)) [[likely]]
      return true;
    Message& message = messages_.emplace_back(Message{&to, tag, {header.begin(), header.end()}});
    message.bytes.insert(message.bytes.end(), payload.begin(), payload.end());
    return false;
  }

 private:
  struct Message {
    opal::am::Endpoint* to;
    opal::Tag tag;
    std::vector<std::byte> bytes;
  };

  static bool holds(const std::vector<Message>& messages, const opal::am::Endpoint& to) noexcept {
    return std::ranges::any_of(messages, [&](const Message& other) { return other.to == &to; });
  }

  /// False: the endpoint queues am_pending_limit bytes already.
  static bool attempt(opal::am::Endpoint& to, opal::Tag tag, opal::ByteSpan header, opal::ByteSpan payload) noexcept {
    if (to.send_or_queue(tag, header, payload) != opal::Post::failed || to.dead()) return true;
    if (to.error().code == opal::Errc::limit_reached) return false;
    opal::log::error("mpi", "a control message to peer {} is lost: {}", to_string(to.peer()), to_string(to.error()));
    return true;
  }

  /// True: nothing is left.  attempt() may find that a peer has failed, and so call post().
  bool retry() noexcept {
    std::vector<Message> left;
    std::vector<Message> tried = std::exchange(messages_, {});
    for (Message& message : tried) {
      if (holds(left, *message.to) || !attempt(*message.to, message.tag, message.bytes, {})) {
        left.push_back(std::move(message));
      }
    }
    messages_.insert(messages_.begin(), std::move_iterator{left.begin()}, std::move_iterator{left.end()});
    return messages_.empty();
  }

  std::vector<Message> messages_;
};

}  // namespace mpi_shim::p2p
