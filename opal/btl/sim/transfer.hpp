// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/transfer.hpp — a put, get or atomic: the payload of request and response packets.  The initiator's
// Module makes it, the fabric executes it for the target's device, and it returns to the initiator as the response.
#pragma once
#include <cstdint>

#include "opal/btl/atomic.hpp"
#include "opal/btl/module.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"

namespace opal::btl::sim {

struct Transfer {
  std::uint64_t operation;  // RdmaOperations::name_of() at the initiator
  SoftwareHandle remote;
  std::uint64_t remote_address;
  std::uint64_t size;
  std::uint64_t moved;  // bytes copied so far
  std::byte* local;     // memory of the initiator; unused by an atomic
  std::uint64_t operand;
  std::uint64_t compare;
  std::uint64_t old_value;  // result of an atomic
  Error error;              // result of the operation, in the response
  OperationKind kind;
  AtomicOp op;
  AtomicType type;
};

}  // namespace opal::btl::sim
