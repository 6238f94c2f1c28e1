// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/wire.hpp — every byte that a peer sees.  Change anything here => bump kWireVersion.
//   connector: Request, with the connection manager's request (RoCE and InfiniBand leave 56 bytes there).
//   acceptor: Reply, or Refusal.  Then both, as messages on the queue pair: Frame and what belongs to it; the
//   connector's first one is `confirm`.  Little endian.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::verbs::wire {

static_assert(std::endian::native == std::endian::little, "structs go over the wire as they are");

inline constexpr std::uint8_t kWireVersion = 2;
inline constexpr std::uint32_t kMagic = 0x726c706f;  // "oplr"

/// The address blob of a module.
struct Address {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t port;  ///< of the connection manager, host byte order
  PeerId id;
  Nonce token;                      ///< random: with the job's secret it opens connections
  std::array<std::uint8_t, 16> ip;  ///< IPv6, or IPv4 mapped; network byte order
};
static_assert(sizeof(Address) == 56 && std::has_unique_object_representations_v<Address>, "wire layout v2");

enum class Purpose : std::uint8_t {
  messages = 1,
  one_sided = 2,  ///< the connector's puts, gets and atomics; proven with the session's key
};

/// As much of a proof as the connection manager's request has room for.
using ShortProof = std::array<std::byte, 16>;

struct Request {
  std::uint8_t version;
  Purpose purpose;
  std::uint16_t window;    ///< messages that the acceptor may have under way to the connector, to begin with
  std::uint32_t max_send;  ///< must be the acceptor's own
  PeerId from;
  Nonce nonce;
  ShortProof proof;  ///< see handshake.hpp
};
static_assert(sizeof(Request) == 56 && std::has_unique_object_representations_v<Request>, "wire layout v2");

struct Reply {
  std::uint32_t window;  ///< messages that the connector may have under way to the acceptor, to begin with
  std::uint32_t reserved;
  Nonce nonce;
  Proof proof;
};
static_assert(sizeof(Reply) == 56 && std::has_unique_object_representations_v<Reply>, "wire layout v2");

enum class Reason : std::uint32_t {
  stranger = 1,  ///< the proof is wrong, or not even there
  crossing,      ///< both sides connect at once, and the other connection stays
  busy,          ///< come again: the end of an older connection has not been seen yet
  different,     ///< btl_verbs_max_send differs, or the version
  full,          ///< no buffers for another peer
};
struct Refusal {
  std::uint32_t magic;
  Reason reason;
};
static_assert(sizeof(Refusal) == 8 && std::has_unique_object_representations_v<Refusal>, "wire layout v2");

enum class Kind : std::uint16_t {
  message = 1,  ///< with a tag; the only one that uses a credit
  credits,      ///< nothing but Frame::credits
  confirm,      ///< the connector's Confirm
  goodbye,      ///< the sender has disconnected; nothing follows
  more,         ///< the sender could use a larger window
  grant,        ///< the window grows by Frame::credits, which are new ones
};

/// The connector's first message.
struct Confirm {
  Address address;  ///< of the connector's module
  Proof proof;      ///< over it and both nonces
};
static_assert(sizeof(Confirm) == 88 && std::has_unique_object_representations_v<Confirm>, "wire layout v2");

/// A memory handle.
struct Handle {
  std::uint32_t key;    ///< the device's; 0 when it does not know the memory
  std::uint32_t flags;  ///< kHasKey, kAtomics
  SoftwareHandle software;
};
inline constexpr std::uint32_t kHasKey = 1;
inline constexpr std::uint32_t kAtomics = 2;  ///< by the device, of 64 bits: add and compare_swap
static_assert(sizeof(Handle) == 40 && std::has_unique_object_representations_v<Handle>, "wire layout v2");

/// Before each payload.
struct Frame {
  Tag tag;
  Kind kind;
  std::uint32_t credits;  ///< messages taken since the last frame
};
static_assert(sizeof(Frame) == 8 && std::has_unique_object_representations_v<Frame>, "wire layout v2");

}  // namespace opal::btl::verbs::wire
