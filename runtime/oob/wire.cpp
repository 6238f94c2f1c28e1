// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace runtime::oob {

namespace {

// Bytes: a larger buffer is freed before the next message, and no more is reserved before data arrives.
constexpr std::size_t kBufferLimit = 64U << 10;

}  // namespace

Result<PieceHeader> read_header(ByteSpan piece) {
  PieceHeader header{};
  if (!opal::read_object(piece, header)) return Error{Errc::protocol, 0, "oob: piece too short", piece.size()};
  if (header.version != kVersion) return Error{Errc::version_mismatch, 0, "oob: version", header.version};
  return header;
}

// A refused piece changes nothing: all tests come before the first change.
Result<const Assembler::Message*> Assembler::add(ByteSpan piece) {
  OPAL_TRY_ASSIGN(const PieceHeader header, read_header(piece));
  ByteSpan part = piece.subspan(sizeof header);
  if (header.total > kLargestMessage || header.offset > header.total || part.size() > header.total - header.offset) {
    return Error{Errc::protocol, 0, "oob: piece outside of its message", header.offset};
  }
  if (part.empty() && header.total != 0) return Error{Errc::protocol, 0, "oob: empty piece"};
  if (header.number == 0) return Error{Errc::protocol, 0, "oob: message without number"};
  if (header.number < next_) return nullptr;  // a duplicate, for example sent again over another transport
  if (header.number > next_) return Error{Errc::protocol, 0, "oob: a message is missing before", header.number};
  if (begun_ && (header.total != total_ || header.topic != topic_)) {
    return Error{Errc::protocol, 0, "oob: piece of another message", header.number};
  }
  const std::size_t known = begun_ ? content_.size() : 0;
  if (header.offset > known) return Error{Errc::protocol, 0, "oob: a piece is missing before", header.offset};
  if (header.offset + part.size() <= known && header.total != 0) return nullptr;  // nothing new
  part = part.subspan(known - header.offset);
  const Topic topic{header.topic};
  if (known == 0 && part.size() == header.total) {  // one piece: the content stays in the caller's piece
    complete_ = {topic, part};
  } else {
    if (!begun_) {
      content_.clear();
      if (content_.capacity() > kBufferLimit) content_.shrink_to_fit();
      content_.reserve(std::min<std::size_t>(header.total, kBufferLimit));  // header.total is the peer's claim
      topic_ = header.topic;
      total_ = header.total;
      begun_ = true;
    }
    content_ += as_text(part);
    if (content_.size() < total_) return nullptr;
    complete_ = {topic, as_bytes(content_)};
  }
  begun_ = false;
  ++next_;
  return &complete_;
}

std::string Assembler::take(const Message& message) {
  const bool ours = message.content.data() == as_bytes(content_).data();
  return ours ? std::exchange(content_, {}) : std::string{as_text(message.content)};
}

std::string to_hex(ByteSpan bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

Result<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return Error{Errc::protocol, 0, "oob: hex text: odd number of digits", text.size()};
  std::string bytes;
  for (; !text.empty(); text.remove_prefix(2)) {
    unsigned value = 0;
    const char* const end = text.data() + 2;
    if (std::from_chars(text.data(), end, value, 16).ptr != end) {
      return Error{Errc::protocol, 0, "oob: hex text: not hexadecimal digits", bytes.size()};
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace runtime::oob
