// SPDX-License-Identifier: Apache-2.0
// opal/am/large_sends.hpp — the sender's half of large messages: offers in flight and offers that wait for a
// credit (docs/design/active-messages.md).
// Owned by a Context.  Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <deque>
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
  explicit LargeSends(std::size_t pending_limit) noexcept : pending_limit_(pending_limit) {}

  /// Offers a message to the peer; `route` is the endpoint's route.  The payload stays unchanged until the completion
  /// runs.  Answers `queued`, `again` (no registration is free during a checkpoint) or `failed`.
  Post send(Endpoint& to, btl::Endpoint& route, Tag tag, ByteSpan header, ByteSpan payload,
            Completion& completion) noexcept;
  /// The handler of wire::kLargeEnd.
  void on_end(btl::Delivery& delivery) noexcept;
  /// The route has failed, or is disconnected: all its messages, sent or waiting, end with `why`.
  void route_gone(const btl::Endpoint& route, const Error& why) noexcept;
  [[nodiscard]] bool idle() const noexcept { return routes_.empty(); }

 private:
  struct Outgoing {
    std::uint32_t generation = 0;
    const btl::Endpoint* route = nullptr;  // null: the slot is free, or its offer is being posted
    Endpoint* to = nullptr;
    Completion* completion = nullptr;
    ExposedMemory memory;
    std::vector<std::byte> offer;  // while it waits for a credit
  };
  struct Route {
    std::size_t in_flight = 0;
    std::deque<std::uint32_t> waiting;  // slots
    std::size_t waiting_bytes = 0;
  };

  std::uint32_t take_slot();
  /// Frees the slot; the completion is the caller's to call.
  Completion& end(std::uint32_t slot) noexcept;
  void send_waiting(const btl::Endpoint& route) noexcept;

  const std::size_t pending_limit_;
  std::deque<Outgoing> slots_;  // stable addresses
  std::vector<std::uint32_t> free_;
  std::unordered_map<const btl::Endpoint*, Route> routes_;  // those that have a message here
};

}  // namespace opal::am
