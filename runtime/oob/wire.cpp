// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

Error Assembler::drop(Error why) {
  unfinished_ = false;
  content_.clear();
  return why;
}

Result<const Assembler::Message*> Assembler::add(ByteSpan piece) {
  PieceHeader header{};
  if (!opal::read_object(piece, header)) return drop({Errc::protocol, 0, "oob: piece too short", piece.size()});
  if (header.version != kVersion) return drop({Errc::version_mismatch, 0, "oob: version", header.version});
  const ByteSpan part = piece.subspan(sizeof header);
  if (header.total > kLargestMessage || header.offset > header.total || part.size() > header.total - header.offset) {
    return drop({Errc::protocol, 0, "oob: piece outside of its message", header.offset});
  }
  if (header.offset == 0) {
    content_.clear();
    total_ = header.total;
    topic_ = header.topic;
  } else if (!unfinished_ || header.offset != content_.size() || header.total != total_ || header.topic != topic_) {
    return drop({Errc::protocol, 0, "oob: piece that does not continue its message", header.offset});
  }
  unfinished_ = header.offset + part.size() < header.total;
  if (unfinished_ && part.empty()) return drop({Errc::protocol, 0, "oob: empty piece"});
  const Topic topic{header.topic};
  if (header.offset == 0 && !unfinished_) {  // the common case: nothing to copy
    complete_ = {topic, part};
    return &complete_;
  }
  content_ += as_text(part);
  if (unfinished_) return nullptr;
  complete_ = {topic, as_bytes(content_)};
  return &complete_;
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
  if (text.size() % 2 != 0) return Error{Errc::protocol, 0, "daemon address: odd number of digits", text.size()};
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return Error{Errc::protocol, 0, "daemon address: not hexadecimal", i};
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace runtime::oob
