// SPDX-License-Identifier: Apache-2.0
// opal/am/messages/buffer_source.hpp — functions of the program that supply the memory for large messages of a tag.
// Threads: they run inside progress(), as handlers do.
#pragma once
#include <cstddef>

#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::am {

class Endpoint;

/// Supplies the buffer of each message of a tag that is larger than max_send.
/// `object` outlives every message for which it has supplied a buffer, also after clear_handler().
struct BufferSource {
  /// Returns `size` bytes, 8-byte aligned, for header and payload; null refuses the message, which then completes with
  /// limit_reached at the sender.  The library returns the buffer by the call of the handler (Delivery::data is the
  /// buffer) or of release().  The peer chooses `size`: the function must limit it.
  using Allocate = std::byte* (*)(void* object, Endpoint& from, Tag tag, ByteSpan header, std::size_t size) noexcept;
  /// Returns a buffer whose message will not arrive to the program.
  using Release = void (*)(void* object, std::byte* buffer) noexcept;
  Allocate allocate = nullptr;
  Release release = nullptr;
  void* object = nullptr;
};

}  // namespace opal::am
