// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/frame_reader.hpp — splits a received byte stream into frames, in place.
// A view over a buffer that the user owns.  It knows no socket, so tests can split the stream at every byte.
// Use: call next() until it returns incomplete; then write received bytes to room() and call received().
// Payloads are 8-byte aligned and valid until the next call of room().  next() checks the frames, which a peer makes.
#pragma once
#include <algorithm>
#include <cstddef>

#include "opal/btl/tcp/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/error.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT FrameReader {
 public:
  enum class Next {
    message,     ///< tag() and payload() describe it
    goodbye,     ///< the peer has disconnected
    incomplete,  ///< more bytes are needed
    broken,      ///< the peer broke the protocol: see error(); no further call is allowed
  };

  FrameReader() noexcept = default;
  /// `buffer`: 8-byte aligned, at least buffer_size(max_payload) bytes.  `max_payload`: larger frames are an error.
  FrameReader(MutableBytes buffer, std::size_t max_payload) noexcept : buffer_(buffer), max_payload_(max_payload) {}

  /// Two of the largest frames: after an incomplete one there is room for another.
  static constexpr std::size_t buffer_size(std::size_t max_payload) noexcept { return 2 * largest_frame(max_payload); }

  [[nodiscard]] Next next() noexcept;
  [[nodiscard]] std::uint16_t tag() const noexcept { return frame_.tag; }
  [[nodiscard]] ByteSpan payload() const noexcept { return payload_; }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

  /// The begin of the message that is incomplete: what has arrived of its payload; tag() is valid.  Empty without one.
  [[nodiscard]] ByteSpan begun() const noexcept;
  /// The bytes of its payload that have not arrived; 0 without one.
  [[nodiscard]] std::size_t missing() const noexcept { return begun().empty() ? 0 : frame_.size - begun().size(); }

  /// The memory for the next received bytes; never empty.  Requires: next() has returned incomplete.
  [[nodiscard]] MutableBytes room() noexcept;
  /// `size` bytes were written to room(), or received to another place instead.
  void received(std::size_t size) noexcept { end_ += size; }

 private:
  /// A message or a filler.
  static constexpr std::size_t largest_frame(std::size_t max_payload) noexcept {
    return wire::frame_size(std::max(max_payload, wire::kFillerSize));
  }
  [[nodiscard]] ByteSpan unread() const noexcept { return {buffer_.data() + begin_, end_ - begin_}; }
  Next broken(const char* why, std::uint64_t detail) noexcept;
  void move_to_front() noexcept;

  MutableBytes buffer_;
  std::size_t max_payload_ = 0;
  std::size_t begin_ = 0;  // unread bytes in buffer_: [begin_, end_); begin_ is a multiple of 8
  std::size_t end_ = 0;
  wire::Frame frame_{};  // of the latest next(); an incomplete one is checked already
  ByteSpan payload_;
  Error error_{};
};

}  // namespace opal::btl::tcp
