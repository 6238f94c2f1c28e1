// SPDX-License-Identifier: Apache-2.0
// opal/btl/delivery.hpp — a message being received: valid inside the handler only, unless retained.
#pragma once
#include <cstring>
#include <memory>

#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl {

class Endpoint;

/// A received message that outlives its handler.  Owns its bytes.
class RetainedMessage {
 public:
  RetainedMessage(Endpoint& from, Tag tag, ByteSpan data)
      : from_(&from), tag_(tag), size_(data.size()), bytes_(std::make_unique_for_overwrite<std::byte[]>(data.size())) {
    if (!data.empty()) std::memcpy(bytes_.get(), data.data(), data.size());
  }
  [[nodiscard]] Endpoint& from() const noexcept { return *from_; }
  [[nodiscard]] Tag tag() const noexcept { return tag_; }
  [[nodiscard]] MutableBytes data() const noexcept { return {bytes_.get(), size_}; }

 private:
  Endpoint* from_;
  Tag tag_;
  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

/// What a handler is given.  `data` is header and payload, one after the other, contiguous; it is a peer's: check it.
/// Its address is 8-byte aligned.  It may lie in memory the peer can still write: read each field once, then check.
struct Delivery {
  Endpoint& from;  ///< answer to it; to keep the sender's address past the endpoint's life use from.peer()
  Tag tag;
  ByteSpan data;

  /// Copies the message so that it may be kept.  Allocates: for the unexpected, not for the common case.
  [[nodiscard]] RetainedMessage retain() const { return RetainedMessage{from, tag, data}; }
};

}  // namespace opal::btl
