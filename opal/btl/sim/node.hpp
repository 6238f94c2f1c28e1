// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/node.hpp — the state of a device (Node) and of one direction of a connection (Link) in the fabric.
// Owned and locked by the fabric, except where a comment names another rule.
#pragma once
#include <cstdint>

#include "opal/btl/sim/packet.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl {
class RegistrationTable;
}

namespace opal::btl::sim {

class Endpoint;

struct Node {
  Node(NodeId id, std::uint32_t window, const RegistrationTable& registrations) noexcept
      : id(id), registrations(registrations), window(window) {}

  const NodeId id;
  const RegistrationTable& registrations;  // of the Context; the device checks accesses of peers in it
  Packet* inbox = nullptr;                 // packets for the node's software: a list, oldest first
  Packet* inbox_last = nullptr;
  std::uint64_t busy_until = 0;     // simulated ns: its processor is busy until then
  std::uint64_t sending_until = 0;  // simulated ns: its network link is busy until then
  std::uint32_t group = 0;          // see Fabric::set_group()
  const std::uint32_t window;       // Config::window
  bool crashed = false;
  bool alone = false;  // crashed as Crash::device: its software goes on
  bool armed = false;  // its software sleeps, or is about to: write the doorbell
  bool ready = false;  // in the queue of next_ready()
  Fd doorbell;         // made by the first Fabric::doorbell()
};

/// One direction of a connection.  Its memory is reused when both ends have closed it and no packet refers to it.
struct Link {
  NodeId from = 0;
  NodeId to = 0;
  std::uint64_t id = 0;             // never used twice; grows in the order of open_link()
  Endpoint* sender = nullptr;       // only the sending module uses it; null: closed
  Endpoint* receiver = nullptr;     // only the receiving module uses it; null: closed
  std::uint64_t last_arrival = 0;   // simulated ns: latest arrival of a packet; a later packet arrives no earlier
  std::uint64_t stalled_until = 0;  // simulated ns: resend of a lost packet; later packets wait until then
  std::uint32_t references = 0;     // number of its packets and open ends
  std::uint32_t unhandled = 0;      // messages sent and not handled yet
  bool wanted = false;              // a message was refused since the last was handled
  bool broken = false;              // retries ran out: all its packets are dropped
  bool closed = false;              // the sender has ended its operations: transfers must not access memory
};

}  // namespace opal::btl::sim
