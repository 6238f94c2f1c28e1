// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/node.hpp — what the fabric keeps of a device and of one direction of a connection.
// Owned by the fabric; guarded by it, but for what is said to be the module's.
#pragma once
#include <cstdint>

#include "opal/btl/sim/memory/memory_unit.hpp"
#include "opal/btl/sim/packet.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sim {

class Endpoint;

struct Node {
  Node(NodeId id, Pages& pages, const Config& config, std::uint64_t first_generation) noexcept
      : id(id), memory(pages, config, first_generation), window(config.window) {}

  const NodeId id;
  MemoryUnit memory;        // safe by itself
  Packet* inbox = nullptr;  // for the node's software, oldest first
  Packet* inbox_last = nullptr;
  std::uint64_t busy_until = 0;     // its processor
  std::uint64_t sending_until = 0;  // its link
  std::uint32_t group = 0;
  const std::uint32_t window;
  bool crashed = false;
  bool alone = false;  // of that: the device only, its software goes on
  bool armed = false;
  bool ready = false;  // in the list of next_ready()
  Fd doorbell;         // made by the first wait
};

/// One direction of a connection.  Lives until both ends have closed it and nothing is in flight on it.
struct Link {
  NodeId from = 0;
  NodeId to = 0;
  std::uint64_t id = 0;          // never used twice, unlike its memory
  Endpoint* sender = nullptr;    // touched by the sending module only, but for closing
  Endpoint* receiver = nullptr;  // touched by the receiving module only
  std::uint64_t last_arrival = 0;
  std::uint64_t stalled_until = 0;  // a packet was lost: nothing overtakes it
  std::uint32_t references = 0;     // packets, and each open end
  std::uint32_t unhandled = 0;      // messages sent and not handled yet
  bool wanted = false;              // a message was refused since the last was handled
  bool broken = false;              // retries ran out: the rest is dropped
  bool closed = false;              // the sender's endpoint is gone: its transfers must not touch memory
};

}  // namespace opal::btl::sim
