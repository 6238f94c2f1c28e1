// SPDX-License-Identifier: Apache-2.0
// opal/btl/delivery.hpp — a received message: valid inside its handler only.
#pragma once
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl {

class Endpoint;

/// The argument of a handler.  `data` is header and payload, contiguous, 8-byte aligned.
/// The bytes come from a peer and are not checked.  The peer may still be able to write that memory (sm): the handler
/// reads each field once and checks the copy.
struct Delivery {
  Endpoint& from;  ///< the sender; the handler may post on it.  A copy of from.peer() stays valid after the handler
  Tag tag;
  ByteSpan data;
  std::size_t placed = 0;  ///< bytes after `data` that the transport received to the memory of Handler::place
  bool lost = false;       ///< some of the placed bytes are lost: that memory was not accessible any more
};

}  // namespace opal::btl
