// SPDX-License-Identifier: Apache-2.0
// opal/am/messages/large_wire.hpp — the messages of the rendezvous for large active messages, and their parser
// (docs/design/active-messages.md).  Fields are of this machine's byte order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace opal::am::wire {

inline constexpr Tag kLargeOffer = kAmTags.first;
inline constexpr Tag kLargeEnd = kAmTags.first + 1;
inline constexpr std::size_t kMostOffers = 64;  ///< of one route, in flight

/// Followed by handle_size bytes of handle and header_size bytes of header.
struct LargeOffer {
  std::uint64_t name;         ///< the sender's, for the LargeEnd
  std::uint64_t address;      ///< of the payload at the sender
  std::uint64_t size;         ///< of the payload, bytes
  std::uint32_t header_size;  ///< bytes
  std::uint16_t tag;
  std::uint16_t handle_size;  ///< <= MemoryHandle::kMaxSize
};
static_assert(sizeof(LargeOffer) == 32 && std::has_unique_object_representations_v<LargeOffer>, "wire layout v1");

/// The handler has run, or the receiver refuses.
struct LargeEnd {
  std::uint64_t name;
  std::uint64_t code;  ///< Errc, 0 = the handler has run
};
static_assert(sizeof(LargeEnd) == 16 && std::has_unique_object_representations_v<LargeEnd>, "wire layout v1");

/// An offer whose fields agree with each other and with the length of its message.
struct ParsedOffer {
  LargeOffer offer;
  MemoryHandle handle;
  ByteSpan header;  ///< within the message

  [[nodiscard]] std::uint64_t total() const noexcept { return offer.header_size + offer.size; }
};

/// Errors: protocol.
inline Result<ParsedOffer> parse_offer(ByteSpan message) noexcept {
  ParsedOffer parsed{};
  if (!read_object(message, parsed.offer)) return Error{Errc::protocol, 0, "large offer: too short", message.size()};
  const LargeOffer& offer = parsed.offer;
  const ByteSpan rest = message.subspan(sizeof offer);
  if (std::uint64_t{offer.handle_size} + offer.header_size != rest.size()) {
    return Error{Errc::protocol, 0, "large offer: its sizes do not add up", rest.size()};
  }
  if (offer.size > UINT64_MAX - offer.header_size) {
    return Error{Errc::protocol, 0, "large offer: impossible size", offer.size};
  }
  // Messages of the library itself are short.
  if (!is_tag(offer.tag) || kBtlTags.contains(offer.tag) || kAmTags.contains(offer.tag)) {
    return Error{Errc::protocol, 0, "large offer: not a tag of a large message", offer.tag};
  }
  OPAL_TRY_ASSIGN(parsed.handle, MemoryHandle::from_bytes(rest.first(offer.handle_size)));
  parsed.header = rest.subspan(offer.handle_size);
  return parsed;
}

/// The code of a LargeEnd or of another answer; a number that is no code is `protocol`.
inline Errc code_of(std::uint64_t code) noexcept {
  return code <= static_cast<std::uint64_t>(Errc::internal) ? static_cast<Errc>(code) : Errc::protocol;
}

}  // namespace opal::am::wire
