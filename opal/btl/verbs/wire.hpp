// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/wire.hpp — the wire format.  Each change here requires a new kWireVersion.  Little endian.
//   1. connector: Request, as private data of the connection manager's request (at most 56 bytes on RoCE, InfiniBand).
//   2. acceptor: Reply or Refusal, as private data of the connection manager's answer.
//   3. both: messages on the queue pair, each a Frame and its payload.  The connector's first one is `confirm`.
// Keys of the proofs (opal/btl/shared/proofs.hpp), and what stops a replay:
//   messages    job secret and token of the acceptor            `confirm` covers the acceptor's nonce
//   one-sided   session of the message connection of the two    the session accepts each request number once
// The proof in the request limits the cost of an unauthenticated request to a check of 56 bytes.  A request may be a
// replay, so the acceptor delivers no message before the `confirm`.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::verbs::wire {

static_assert(std::endian::native == std::endian::little, "structs go over the wire as they are");

inline constexpr std::uint8_t kWireVersion = 3;
inline constexpr std::uint32_t kMagic = 0x726c706f;  // "oplr"

/// The address of a module.
struct Address {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t port;  ///< of the connection manager, host byte order
  PeerId id;
  Nonce token;                      ///< random; input of the key of all message connections to the module
  std::array<std::uint8_t, 16> ip;  ///< IPv6, or IPv4 mapped; network byte order
};
static_assert(sizeof(Address) == 56 && std::has_unique_object_representations_v<Address>, "wire layout v2");

inline constexpr std::string_view kConnectionKey = "verbs connection";  ///< from the job's secret and a token
inline constexpr std::string_view kSessionKey = "verbs session";        ///< from that and both nonces

enum class Purpose : std::uint8_t {
  messages = 1,
  one_sided = 2,  ///< the connector's puts, gets and atomics; proven with the session's key
};

/// A proof cut to the size for which Request has room.
using ShortProof = std::array<std::byte, 16>;

struct Request {
  static constexpr std::string_view kPurpose = "verbs request";
  std::uint8_t version;
  Purpose purpose;
  std::uint16_t window;    ///< messages that the acceptor may have in flight to the connector initially
  std::uint32_t max_send;  ///< btl_verbs_max_send; must be equal to the acceptor's
  PeerId from;
  Nonce nonce;
  ShortProof proof;  ///< covers all other members and the acceptor's PeerId
};
static_assert(sizeof(Request) == 56 && std::has_unique_object_representations_v<Request>, "wire layout v2");

struct Reply {
  static constexpr std::string_view kPurpose = "verbs reply";
  std::uint32_t window;  ///< messages that the connector may have in flight to the acceptor initially
  std::uint32_t reserved;
  Nonce nonce;
  Proof proof;  ///< covers the request and all other members
};
static_assert(sizeof(Reply) == 56 && std::has_unique_object_representations_v<Reply>, "wire layout v2");

enum class Reason : std::uint32_t {
  unauthenticated = 1,  ///< the proof is wrong or missing
  crossing,             ///< both sides connect at once, and the acceptor's own connection remains
  busy,                 ///< the acceptor has not seen the end of an older connection: retry later
  different,            ///< btl_verbs_max_send or the version differs
  full,                 ///< the acceptor has no buffers for another peer, or its device has failed
};
struct Refusal {
  std::uint32_t magic;
  Reason reason;
};
static_assert(sizeof(Refusal) == 8 && std::has_unique_object_representations_v<Refusal>, "wire layout v2");

enum class Kind : std::uint16_t {
  message = 1,  ///< an active message; the only kind that uses a credit
  credits,      ///< only returns Frame::credits
  confirm,      ///< payload: Confirm
  goodbye,      ///< the last message: the sender has disconnected
  more,         ///< the sender requests a larger window
  grant,        ///< the window grows by Frame::credits; these are additional credits, not returned ones
};

/// The connector's first message.
struct Confirm {
  static constexpr std::string_view kPurpose = "verbs confirm";
  Address address;  ///< of the connector's module
  Proof proof;      ///< covers the address, with the key of the session and so both nonces
};
static_assert(sizeof(Confirm) == 88 && std::has_unique_object_representations_v<Confirm>, "wire layout v2");

/// Before each payload.
struct Frame {
  Tag tag;
  Kind kind;
  std::uint32_t credits;  ///< returned credits: messages that the sender has taken since its last frame
};
static_assert(sizeof(Frame) == 8 && std::has_unique_object_representations_v<Frame>, "wire layout v2");

}  // namespace opal::btl::verbs::wire
