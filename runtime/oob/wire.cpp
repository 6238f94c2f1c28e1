// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/wire.hpp"

#include <algorithm>
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
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Result<std::string> from_hex(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  if (text.size() % 2 != 0) return Error{Errc::protocol, 0, "oob: hex text: odd number of digits", text.size()};
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return Error{Errc::protocol, 0, "oob: hex text: not a lower-case hexadecimal digit", i};
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace runtime::oob
