// SPDX-License-Identifier: Apache-2.0
// What a peer of the out-of-band channel may send: pieces of messages, each preceded by its length as one byte.  What
// is put together must be what a plain model of the rules puts together.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/oob/wire.hpp"

namespace {

namespace oob = runtime::oob;

/// The rules of wire.hpp, spelled out.
struct Model {
  bool open = false;
  std::uint64_t total = 0;
  std::uint16_t topic = 0;
  std::string content;

  /// True when `piece` completes a message, which is then `content`.
  bool add(opal::ByteSpan piece) {
    oob::PieceHeader header{};
    const bool was_open = std::exchange(open, false);
    if (!opal::read_object(piece, header) || header.version != oob::kVersion) return false;
    const std::string part{oob::as_text(piece.subspan(sizeof header))};
    if (header.total > oob::kLargestMessage || header.offset > header.total) return false;
    if (part.size() > header.total - header.offset) return false;
    if (header.offset == 0) {
      content.clear();
      total = header.total;
      topic = header.topic;
    } else if (!was_open || header.offset != content.size() || header.total != total || header.topic != topic) {
      return false;
    }
    content += part;
    open = content.size() < total && !part.empty();
    return content.size() == total;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  opal::ByteSpan rest = std::as_bytes(std::span{data, size});
  oob::Assembler assembler;
  Model model;
  while (!rest.empty()) {
    const std::size_t length = std::min(std::to_integer<std::size_t>(rest[0]), rest.size() - 1);
    const opal::ByteSpan piece = rest.subspan(1, length);
    rest = rest.subspan(1 + length);
    const auto message = assembler.add(piece);
    const bool complete = message && *message != nullptr;
    if (complete != model.add(piece)) std::abort();
    if (complete && oob::as_text((*message)->content) != model.content) std::abort();
  }
  return 0;
}
