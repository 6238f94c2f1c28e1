// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/transfer.hpp — a put, get or atomic: the payload of request and response packets.  The initiator's
// Module makes it, the fabric executes it for the target's device, and it returns to the initiator as the response.
#pragma once
#include <cstdint>

#include "opal/btl/atomic.hpp"
#include "opal/btl/sim/memory_unit.hpp"

namespace opal::btl::sim {

struct Transfer {
  enum class Kind : std::uint8_t { put, get, atomic };

  std::uint64_t operation;  // RdmaOperations::name_of() at the initiator
  Key remote;
  std::uint64_t remote_address;
  std::uint64_t size;
  std::uint64_t moved;  // bytes copied so far
  Key local;            // registration of the initiator's memory; unused if in_packet
  std::uint64_t local_address;
  std::uint64_t operand;
  std::uint64_t compare;
  std::uint64_t old_value;  // result of an atomic
  Error error;              // result of the operation, in the response
  Kind kind;
  AtomicOp op;
  AtomicType type;
  bool in_packet;  // the data follows the Transfer: no registration of local memory is needed
};

/// Puts and gets of at most this many bytes have their data in the packet, as inline data of a device.
inline constexpr std::size_t kInline = 256;

}  // namespace opal::btl::sim
