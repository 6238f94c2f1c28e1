// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/message_link.hpp — the memory and descriptors through which two processes exchange messages.
// The handshake makes it (connections/link.hpp).  Threads: as the module.
#pragma once
#include <cstdint>
#include <memory>

#include "opal/btl/sm/messages/memory/inbox.hpp"
#include "opal/btl/sm/messages/memory/segment.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sm {

struct MessageLink {
  std::uint32_t index = 0;          ///< the peer's index in our FIFO
  std::uint32_t index_there = 0;    ///< our index in the peer's FIFO
  std::uint32_t peer_max_send = 0;  ///< largest message of the peer, bytes
  bool fences_paid = false;         ///< see sender_fence()
  std::unique_ptr<OutSegment> out;
  InSegment in;
  PeerInbox inbox;
  Fd doorbell;  ///< the peer's
};

}  // namespace opal::btl::sm
