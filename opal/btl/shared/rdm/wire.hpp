// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/wire.hpp — the wire format.  Each change here requires a new kWireVersion.  Little endian.
// Every message is a Frame and its payload, filled up to a multiple of 16 bytes.
//   1. connector: Hello, then the address of its module.
//   2. acceptor: Welcome.
//   3. connector: Confirm.  Then both sides send messages.
// The proof in a Hello limits the cost of an unauthenticated one to a check of its bytes.  A Hello may be a replay, so
// the acceptor delivers no message before the Confirm, which covers its nonce (opal/btl/shared/proofs.hpp).
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

namespace opal::btl::rdm::wire {

static_assert(std::endian::native == std::endian::little, "structs go over the wire as they are");

inline constexpr std::uint16_t kWireVersion = 2;
inline constexpr std::size_t kMostName = 256;  ///< bytes of an address of the network

/// The fixed part of a module's address; name_size bytes of its address in the network follow.
struct AddressHead {
  std::uint32_t magic;  ///< of the transport
  std::uint16_t version;
  std::uint16_t name_size;  ///< 1 to kMostName
  PeerId id;
  Nonce token;                   ///< random; input of the key of all Hellos to the module
  std::uint64_t host;            ///< host_number(): equal for processes that see each other's process identifiers
  std::uint32_t process;         ///< process identifier
  std::uint32_t format;          ///< of the name; a number of the network
  std::array<char, 24> network;  ///< its name, filled with zeros
};
static_assert(sizeof(AddressHead) == 80 && std::has_unique_object_representations_v<AddressHead>, "wire layout v1");

enum class Kind : std::uint8_t {
  message = 1,  ///< an active message; the only kind that uses a credit
  credits,      ///< only returns Frame::credits
  ping,         ///< no effect: its send fails if the peer is dead
  goodbye,      ///< the last message: the sender has disconnected
  hello,        ///< payload: Hello, address; Frame::slot is kNoSlot
  welcome,      ///< payload: Welcome
  confirm,      ///< payload: Confirm
};

/// Before each payload.  An endpoint has no connection below it, so the frame names the receiver's endpoint.
struct Frame {
  std::uint32_t slot;  ///< index of the receiver's endpoint at its module
  std::uint32_t key;   ///< random number of that endpoint, so that late messages reach no other endpoint
  std::uint32_t size;  ///< bytes of payload
  Tag tag;
  Kind kind;
  std::uint8_t credits;  ///< returned credits: messages that the sender has taken since its last frame
};
static_assert(sizeof(Frame) == 16 && std::has_unique_object_representations_v<Frame>, "wire layout v1");
inline constexpr std::uint32_t kNoSlot = UINT32_MAX;
/// Bytes of a message with `size` bytes of payload.  Several messages share a receive buffer; this keeps them aligned.
constexpr std::size_t message_size(std::size_t size) noexcept { return align_up(sizeof(Frame) + size, sizeof(Frame)); }

inline constexpr std::string_view kConnectionKey = "rdm connection";  ///< from the job's secret and a token
inline constexpr std::string_view kSessionKey = "rdm session";        ///< from that and both nonces

struct Hello {
  static constexpr std::string_view kPurpose = "rdm hello";
  std::uint16_t version;
  std::uint16_t window;        ///< messages that the acceptor may have in flight to the connector
  std::uint32_t max_send;      ///< must be equal to the acceptor's
  std::uint32_t slot;          ///< of the connector's endpoint, for Frame
  std::uint32_t key;           ///< of the connector's endpoint, for Frame
  std::uint64_t address_size;  ///< bytes of the blob that follows
  PeerId from;
  Nonce nonce;
  Proof proof;  ///< covers the acceptor's PeerId, the blob, and all other members
};
static_assert(sizeof(Hello) == 88 && std::has_unique_object_representations_v<Hello>, "wire layout v1");

struct Welcome {
  static constexpr std::string_view kPurpose = "rdm welcome";
  std::uint32_t slot;    ///< of the acceptor's endpoint, for Frame
  std::uint32_t key;     ///< of the acceptor's endpoint, for Frame
  std::uint64_t window;  ///< messages that the connector may have in flight to the acceptor
  Nonce nonce;
  Proof proof;  ///< covers the Hello and all other members
};
static_assert(sizeof(Welcome) == 64 && std::has_unique_object_representations_v<Welcome>, "wire layout v1");

struct Confirm {
  static constexpr std::string_view kPurpose = "rdm confirm";
  Proof proof;  ///< covers the Welcome, with the key of the session
};

}  // namespace opal::btl::rdm::wire
