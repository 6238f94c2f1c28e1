// SPDX-License-Identifier: Apache-2.0
// opal/am/messages/buffer_source.hpp — where the large messages of a tag arrive, if not in memory of the library.
// Threads: its functions run inside progress(), as handlers do.
#pragma once
#include <cstddef>

#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::am {

class Endpoint;

/// Supplies the buffer of each message of a tag that is larger than max_send.  Shorter messages need none.
/// `object` outlives every message for which it has supplied a buffer, also after clear_handler().
struct BufferSource {
  /// Returns `size` bytes, 8-byte aligned, for header and payload; null refuses the message, whose sender is told
  /// limit_reached.  The buffer is the program's again when its handler is called (Delivery::data is the buffer), or by
  /// release().  A peer chose the size: bound it.
  using Allocate = std::byte* (*)(void* object, Endpoint& from, Tag tag, ByteSpan header, std::size_t size) noexcept;
  /// Takes back a buffer whose message does not arrive.
  using Release = void (*)(void* object, std::byte* buffer) noexcept;
  Allocate allocate = nullptr;
  Release release = nullptr;
  void* object = nullptr;
};

}  // namespace opal::am
