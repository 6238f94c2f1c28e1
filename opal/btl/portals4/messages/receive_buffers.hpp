// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/messages/receive_buffers.hpp — the buffers for messages: match list entries that take messages one
// after the other (PTL_ME_MANAGE_LOCAL).  The interface unlinks an entry once less than a whole message fits in it.
// A buffer is posted again when the messages that arrived in it leave less than that, so the order of the events does
// not matter.  Owned by the module, which ends the events first.  Threads: as the module.
#pragma once
#include <portals4.h>

#include <deque>
#include <vector>

#include "opal/btl/portals4/device/interface.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::portals4 {

class ReceiveBuffers {
 public:
  /// `message`: bytes of the largest message.  `memory`: bytes of all buffers together.  Errors: no_memory.
  static Result<ReceiveBuffers> create(std::size_t message, std::uint64_t memory);

  /// Posts the buffers that are not posted; false: some are left, since the interface has no room.
  bool post_idle(const Interface& interface, const Objects& objects) noexcept;
  /// The message of a put event; empty: it was truncated.
  [[nodiscard]] static ByteSpan message_of(const ptl_event_t& event) noexcept {
    if (event.mlength != event.rlength) return {};
    return {static_cast<const std::byte*>(event.start), event.mlength};
  }
  /// Counts the message of the event, which was handled.  True: its buffer is to be posted again.
  bool recycle(const ptl_event_t& event) noexcept;
  /// Unlinks all buffers.  False: a message still arrives in one of them.  Their memory then stays mapped for good, and
  /// the objects of the interface must stay, too.
  [[nodiscard]] bool unlink(const Interface& interface) noexcept;

 private:
  struct Buffer {
    std::byte* data;
    std::size_t received = 0;
    ptl_handle_me_t entry = PTL_INVALID_HANDLE;
  };
  ReceiveBuffers(Mapping memory, std::size_t each, std::size_t message) noexcept
      : memory_(std::move(memory)), each_(each), message_(message) {}

  Mapping memory_;
  std::size_t each_;     // bytes of a buffer
  std::size_t message_;  // bytes of the largest message
  std::deque<Buffer> buffers_;
  std::vector<Buffer*> idle_;  // to be posted
};

}  // namespace opal::btl::portals4
