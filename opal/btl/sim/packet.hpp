// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/packet.hpp — the packets of the simulated network (the fabric, fabric.hpp), and their pool.
// A packet is one piece of memory: header, then payload.  The pool allocates memory only when more packets of one size
// class are in use than ever before.  The fabric owns and locks the pool and the packets.  A module uses a packet
// without that lock between make() and send(), and between receive() and discard().
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

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
    timer,       ///< payload: u32, index of Fabric::timers_
  };

  Packet* next = nullptr;      // in Node::inbox or a free list of the pool
  Link* link = nullptr;        // the connection and direction it was sent on; null before send(), and for a timer
  std::uint32_t size = 0;      // bytes of payload
  std::uint32_t attempts = 0;  // losses in a row
  Tag tag = 0;
  Kind kind = Kind::message;
  std::uint8_t size_class = 0;  // of the pool: its memory is 128 << size_class bytes
  bool backward = false;        // travels from the link's receiver to its sender
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
    const std::uint8_t size_class = class_of(size);
    Packet*& free = free_[size_class];
    if (free == nullptr) [[unlikely]]
      refill(size_class);
    Packet* packet = free;
    free = packet->next;
    ++taken_;
    *packet = {};
    packet->size = static_cast<std::uint32_t>(size);
    packet->size_class = size_class;
    return packet;
  }
  void give_back(Packet& packet) noexcept {
    --taken_;
    push_free(packet);
  }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }  ///< packets in use

 private:
  static constexpr std::size_t kSmallest = 128;  // bytes of a packet of class 0

  void push_free(Packet& packet) noexcept {
    packet.next = free_[packet.size_class];
    free_[packet.size_class] = &packet;
  }

  static std::uint8_t class_of(std::size_t size) noexcept {
    return static_cast<std::uint8_t>(
        std::bit_width((std::max<std::size_t>(sizeof(Packet) + size, kSmallest) - 1) / kSmallest));
  }
  [[gnu::noinline]] void refill(std::uint8_t size_class) {
    const std::size_t each = kSmallest << size_class;
    const std::size_t count = std::max<std::size_t>(1, kSlab / each);
    std::byte* slab = slabs_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(each * count)).get();
    for (std::size_t i = count; i-- > 0;) {
      auto* packet = std::construct_at(reinterpret_cast<Packet*>(slab + i * each));
      packet->size_class = size_class;
      push_free(*packet);
    }
  }

  static constexpr std::size_t kSlab = 32 << 10;  // bytes per allocation, at least one packet
  std::array<Packet*, 20> free_{};                // by size class; the largest is 128 << 19 bytes
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::uint64_t taken_ = 0;
};

}  // namespace opal::btl::sim
