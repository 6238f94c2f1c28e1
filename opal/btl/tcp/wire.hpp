// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/wire.hpp — the bytes of a connection.  Little endian.  Every change needs a new kWireVersion.
//   acceptor -> connector   Challenge
//   connector -> acceptor   Hello
//   acceptor -> connector   Welcome, possibly after a long time (parked); or the acceptor closes the connection
//   both directions         frames, each padded to 8 bytes, so that payloads are aligned in the receiver's buffer
// Hello and Welcome prove that their senders know the job's secret and the token in the acceptor's address.  Their
// proofs cover both nonces, so they cannot be replayed or reflected, or used on another connection
// (opal/btl/shared/proofs.hpp).
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "opal/btl/peer_id.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::tcp::wire {

static_assert(std::endian::native == std::endian::little, "structs go over the wire as they are");

inline constexpr std::uint32_t kWireVersion = 3;
inline constexpr std::uint64_t kMagic = 0x637420206c61706f;  // "opal  tc"

inline constexpr std::string_view kConnectionKey = "tcp connection";  ///< from the job's secret and a token

/// First bytes of the acceptor.  They are read without a proof and carry the version, so this layout never changes.
struct Challenge {
  std::uint64_t magic;
  std::uint32_t version;  ///< kWireVersion: of all bytes that follow
  std::uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Challenge) == 32 && std::has_unique_object_representations_v<Challenge>, "wire layout");

/// First bytes of the connector.
struct Hello {
  static constexpr std::string_view kPurpose = "tcp hello";
  PeerId from;
  PeerId to;  ///< the acceptor's; else it closes the connection
  Nonce nonce;
  std::uint64_t max_send;  ///< largest message that the connector sends, bytes; sizes the acceptor's buffer
  Proof proof;             ///< covers the Challenge and all other members
};
static_assert(sizeof(Hello) == 88 && std::has_unique_object_representations_v<Hello>, "wire layout v3");

/// The acceptor's answer.
struct Welcome {
  static constexpr std::string_view kPurpose = "tcp welcome";
  std::uint64_t max_send;  ///< largest message that the acceptor sends, bytes; sizes the connector's buffer
  Proof proof;             ///< covers the Challenge, the Hello and max_send
};
static_assert(sizeof(Welcome) == 40 && std::has_unique_object_representations_v<Welcome>, "wire layout v3");

enum class Kind : std::uint16_t {
  message = 1,
  goodbye = 2,  ///< the sender has disconnected; nothing follows
  filler = 3,   ///< kFillerSize bytes of no meaning, which move the payload of the next frame
};

/// The header of each payload.  The payload is padded to 8 bytes; `size` excludes the padding.
struct Frame {
  std::uint32_t size;
  std::uint16_t tag;   ///< 0 unless kind is message
  std::uint16_t kind;  ///< Kind
};
static_assert(sizeof(Frame) == 8 && std::has_unique_object_representations_v<Frame>, "wire layout v3");

/// Payload of a filler; with its Frame it has 64 bytes.
inline constexpr std::size_t kFillerSize = 56;

constexpr std::size_t padding(std::size_t size) noexcept { return (8 - size % 8) % 8; }
/// Bytes of a whole frame with `size` bytes of payload.
constexpr std::size_t frame_size(std::size_t size) noexcept { return sizeof(Frame) + size + padding(size); }

}  // namespace opal::btl::tcp::wire
