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

/// The rules of wire.hpp, spelled out: which bytes of which message are known.
struct Model {
  std::uint64_t next = 1;
  bool begun = false;
  oob::PieceHeader first{};
  std::string content;

  /// True when `piece` completes a message, which is then `content`.
  bool add(opal::ByteSpan piece) {
    oob::PieceHeader header{};
    if (!opal::read_object(piece, header) || header.version != oob::kVersion || header.number != next) return false;
    const std::string part{oob::as_text(piece.subspan(sizeof header))};
    if (header.total > oob::kLargestMessage || std::uint64_t{header.offset} + part.size() > header.total) return false;
    if (part.empty() && header.total != 0) return false;
    if (begun && (header.total != first.total || header.topic != first.topic)) return false;
    std::string known = begun ? content : std::string{};
    if (header.offset > known.size()) return false;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (header.offset + i == known.size()) known += part[i];
    }
    content = known;
    begun = true;
    first = header;
    if (content.size() < header.total) return false;
    begun = false;
    ++next;
    return true;
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
    if (assembler.next() != model.next) std::abort();
    if (complete && oob::as_text((*message)->content) != model.content) std::abort();
  }
  return 0;
}
