// SPDX-License-Identifier: Apache-2.0
// opal/am/large_sends.hpp — the sender's half of large messages: offers in flight, and offers that wait because
// wire::kMostOffers of their route are in flight (docs/design/active-messages.md).
// Owned by a Context.  Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "opal/am/messages/large_wire.hpp"
#include "opal/am/region.hpp"
#include "opal/btl/delivery.hpp"
#include "opal/btl/post.hpp"

namespace opal::btl {
class Endpoint;
}

namespace opal::am {

class Endpoint;

class LargeSends {
 public:
  /// `pending_limit`: bytes of waiting offers of one route; a message beyond it fails with limit_reached.
  explicit LargeSends(std::size_t pending_limit) noexcept : pending_limit_(pending_limit) {}

  /// Offers a message to the peer; `route` is the endpoint's route.  The payload stays unchanged until the completion
  /// runs.  Returns `queued`, `again` (the payload cannot be registered during a checkpoint) or `failed`.
  Post send(Endpoint& to, btl::Endpoint& route, Tag tag, ByteSpan header, ByteSpan payload,
            Completion& completion) noexcept;
  /// The handler of wire::kLargeEnd.
  void on_end(btl::Delivery& delivery) noexcept;
  /// Ends all messages of a failed or disconnected route, in flight or waiting, with `why`.
  void route_gone(const btl::Endpoint& route, const Error& why) noexcept;
  /// True if no message is in flight or waits.
  [[nodiscard]] bool idle() const noexcept { return routes_.empty(); }

 private:
  struct Outgoing {
    std::uint64_t name;
    Endpoint* to;
    Completion* completion;
    ExposedMemory memory;
    std::vector<std::byte> offer;  // its bytes while it waits; else empty
  };
  struct Route {
    std::map<std::uint64_t, Outgoing> in_flight;  // by name; at most wire::kMostOffers
    std::deque<Outgoing> waiting;                 // oldest first
    std::size_t waiting_bytes = 0;
  };

  void send_waiting(const btl::Endpoint& route) noexcept;

  const std::size_t pending_limit_;
  std::uint64_t next_name_ = 0;
  std::unordered_map<const btl::Endpoint*, Route> routes_;  // routes with a message in flight or waiting
};

}  // namespace opal::am
