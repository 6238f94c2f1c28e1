// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/transfer.hpp — a put, get or atomic on its way: the payload of request packets.  It is made by the
// initiator's Module, served by the target's device in the fabric, and comes back to the initiator as the response.
#pragma once
#include <cstdint>

#include "opal/btl/atomic.hpp"
#include "opal/btl/sim/memory/memory_unit.hpp"

namespace opal::btl::sim {

struct Transfer {
  enum class Kind : std::uint8_t { put, get, atomic };

  std::uint64_t operation;  // its name at the initiator
  Key remote;
  std::uint64_t remote_address;
  std::uint64_t size;
  std::uint64_t moved;  // by the device so far
  Key local;            // the initiator's memory; unused when the bytes travel in the packet
  std::uint64_t local_address;
  std::uint64_t operand;
  std::uint64_t compare;
  std::uint64_t old_value;  // of an atomic
  Error error;              // of the response
  Kind kind;
  AtomicOp op;
  AtomicType type;
  bool in_packet;  // the bytes follow the Transfer: small ones need no registration
};

/// Puts and gets of up to this many bytes carry them in the packet, as devices do with inline data.
inline constexpr std::size_t kInline = 256;

}  // namespace opal::btl::sim
