// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/frame_reader.hpp — cuts a received byte stream into frames, in place.
// A view over a buffer that its user owns: no socket, so that every split of the stream can be tested.
// Use: next() until it says incomplete, then fill room() and say how much came with received().  Payloads are 8-byte
// aligned (the buffer must be) and stay valid until the next call of room().  Every byte is a peer's.
#pragma once
#include <cstddef>

#include "opal/btl/tcp/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/error.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT FrameReader {
 public:
  enum class Next {
    message,     ///< tag() and payload() are good
    goodbye,     ///< the peer has disconnected
    incomplete,  ///< more bytes are needed
    broken,      ///< the peer broke the protocol: error()
  };

  FrameReader() noexcept = default;
  /// `buffer` holds at least buffer_size(max_payload) bytes and is 8-byte aligned.
  FrameReader(MutableBytes buffer, std::size_t max_payload) noexcept : buffer_(buffer), max_payload_(max_payload) {}

  /// Room for two of the largest frames: while one is being completed another fits behind it.
  static constexpr std::size_t buffer_size(std::size_t max_payload) noexcept {
    return 2 * wire::frame_size(max_payload);
  }

  [[nodiscard]] Next next() noexcept;
  [[nodiscard]] std::uint16_t tag() const noexcept { return frame_.tag; }
  [[nodiscard]] ByteSpan payload() const noexcept { return payload_; }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

  /// Where the next received bytes go; never empty.  Only after next() said incomplete.
  [[nodiscard]] MutableBytes room() noexcept;
  void received(std::size_t size) noexcept { end_ += size; }

 private:
  Next broken(const char* why, std::uint64_t detail) noexcept;
  void move_to_front() noexcept;

  MutableBytes buffer_;
  std::size_t max_payload_ = 0;
  std::size_t begin_ = 0;  // multiple of 8: frames are padded
  std::size_t end_ = 0;
  wire::Frame frame_{};
  ByteSpan payload_;
  Error error_{};
};

}  // namespace opal::btl::tcp
