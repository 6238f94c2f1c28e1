// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/packet.hpp — the packets of the simulated network (the fabric, fabric.hpp), and their pool.
// A packet is one piece of memory: header, then payload.  The pool keeps the memory of packets for later ones.  The
// fabric owns and locks the pool and the packets.  A module uses a packet without that lock between make() and send(),
// and between receive() and discard().
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>

#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl::sim {

using NodeId = std::uint32_t;  ///< number of a device on its fabric; never used twice
struct Link;

struct Packet {
  enum class Kind : std::uint8_t {
    connect,     ///< payload: PeerId of the side that connects
    accept,      ///< answer to connect; payload: Link::id of the link that connect was sent on
    disconnect,  ///< the sender ended its endpoint
    message,     ///< an active message; the payload is its header and payload
    request,     ///< payload: Transfer; the target's device serves it, not its software
    response,    ///< the served request on its way back to the initiator
    failure,     ///< to the sender of the link: the peer is unreachable; payload: Errc
    timer,       ///< no payload; the function is in Fabric::timers_
  };

  Packet* next = nullptr;      // in Node::inbox
  Link* link = nullptr;        // the connection and direction it was sent on; null before send(), and for a timer
  std::uint32_t size = 0;      // bytes of payload
  std::uint32_t attempts = 0;  // losses in a row
  Tag tag = 0;
  Kind kind = Kind::message;
  bool backward = false;  // travels from the link's receiver to its sender
  // The payload follows.

  [[nodiscard]] std::byte* payload() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  [[nodiscard]] MutableBytes bytes() noexcept { return {payload(), size}; }
  template <class T>
  [[nodiscard]] T read() noexcept {
    T value;
    std::memcpy(&value, payload(), sizeof value);
    return value;
  }
  template <class T>
  void write(const T& value) noexcept {
    std::memcpy(payload(), &value, sizeof value);
  }
};
static_assert(sizeof(Packet) == 32, "payloads are 8-byte aligned");

class PacketPool {
 public:
  /// Returns a packet with `size` bytes of payload, uninitialised.
  Packet* take(std::size_t size) {
    ++taken_;
    void* const memory = memory_.allocate(sizeof(Packet) + size, alignof(Packet));
    auto* const packet = std::construct_at(static_cast<Packet*>(memory));
    packet->size = static_cast<std::uint32_t>(size);
    return packet;
  }
  void give_back(Packet& packet) noexcept {
    --taken_;
    memory_.deallocate(&packet, sizeof packet + packet.size, alignof(Packet));
  }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }  ///< packets in use

 private:
  std::pmr::unsynchronized_pool_resource memory_;
  std::uint64_t taken_ = 0;
};

}  // namespace opal::btl::sim
