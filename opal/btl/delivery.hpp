// SPDX-License-Identifier: Apache-2.0
// opal/btl/delivery.hpp — a received message: valid inside its handler only.
#pragma once
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl {

class Endpoint;

/// The argument of a handler.  `data` is header and payload, contiguous, 8-byte aligned.  A peer made it: check it. The
/// peer may still be able to write that memory: read each field once, then check the copy.
struct Delivery {
  Endpoint& from;  ///< for answers; from.peer() names the sender beyond the endpoint's lifetime
  Tag tag;
  ByteSpan data;
};

}  // namespace opal::btl
