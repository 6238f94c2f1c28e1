// SPDX-License-Identifier: Apache-2.0
// opal/am/messages/large_wire.hpp — the messages of the rendezvous for large active messages, and their parser
// (docs/design/active-messages.md).  Fields are in the host's byte order.  Pure functions.
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
inline constexpr std::size_t kMostOffers = 64;  ///< offers of one route in flight

/// Sender to receiver.  handle_size bytes of memory handle and header_size bytes of header follow.
struct LargeOffer {
  std::uint64_t name;         ///< chosen by the sender; the LargeEnd returns it
  std::uint64_t address;      ///< of the payload at the sender
  std::uint64_t size;         ///< of the payload, bytes
  std::uint32_t header_size;  ///< bytes
  std::uint16_t tag;          ///< of the message
  std::uint16_t handle_size;  ///< bytes, <= MemoryHandle::kMaxSize
};
static_assert(sizeof(LargeOffer) == 32 && std::has_unique_object_representations_v<LargeOffer>, "wire layout v1");

/// Receiver to sender: the handler has run, or the message has failed.
struct LargeEnd {
  std::uint64_t name;  ///< LargeOffer::name
  std::uint64_t code;  ///< Errc, 0 = the handler has run
};
static_assert(sizeof(LargeEnd) == 16 && std::has_unique_object_representations_v<LargeEnd>, "wire layout v1");

/// An offer whose fields agree with each other and with the length of its message.
struct ParsedOffer {
  LargeOffer offer;
  MemoryHandle handle;
  ByteSpan header;  ///< borrows the message

  /// Bytes of header and payload.
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
  // Transports and opal/am send no large messages with their own tags.
  if (!is_tag(offer.tag) || kBtlTags.contains(offer.tag) || kAmTags.contains(offer.tag)) {
    return Error{Errc::protocol, 0, "large offer: not a tag of a large message", offer.tag};
  }
  OPAL_TRY_ASSIGN(parsed.handle, MemoryHandle::from_bytes(rest.first(offer.handle_size)));
  parsed.header = rest.subspan(offer.handle_size);
  return parsed;
}

/// The Errc for a code on the wire; 0 is no error.  A number above the last Errc becomes `protocol`.
inline Errc code_of(std::uint64_t code) noexcept {
  return code <= static_cast<std::uint64_t>(Errc::internal) ? static_cast<Errc>(code) : Errc::protocol;
}

}  // namespace opal::am::wire
