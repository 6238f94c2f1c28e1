// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/message_link.hpp — the memory and descriptors through which two processes exchange messages.
// The handshake makes it (connections/link.hpp), in the thread of the connection manager.  Owns all of them.
// Threads: then as the module.
#pragma once
#include <cstdint>
#include <memory>

#include "opal/btl/sm/messages/memory/inbox.hpp"
#include "opal/btl/sm/messages/memory/segment.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sm {

struct MessageLink {
  std::uint32_t index = 0;          ///< names the peer in items of this module's FIFO
  std::uint32_t index_there = 0;    ///< names this module in items of the peer's FIFO
  std::uint32_t peer_max_send = 0;  ///< the peer sends no longer message, bytes
  bool fences_paid = false;         ///< the receiver executes the fence for both sides, see asymmetric_fence.hpp
  std::unique_ptr<OutSegment> out;  ///< messages to the peer
  InSegment in;                     ///< messages from the peer
  PeerInbox inbox;                  ///< the peer's
  Fd doorbell;                      ///< the peer's
};

}  // namespace opal::btl::sm
