// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/wire.hpp — the messages of a bootstrap exchange, and their proofs.  Little endian.
//   1. The listener sends a Challenge.
//   2. The connector sends a Head and its address.
//   3. The listener sends a Head and its address, or closes the connection.
// Each Head proves that its sender knows the secret; the proof covers the side, the address, the challenge and
// the connector's nonce. Pure functions.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "opal/core/bytes.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::am::bootstrap_wire {

inline constexpr std::uint64_t kMagic = 0x746f6f622d6f6c68;  // "hlo-boot"
inline constexpr std::uint32_t kVersion = 2;

/// The only message without a proof.  Its layout is the same in all versions.
struct Challenge {
  std::uint64_t magic;
  std::uint32_t version;  ///< kVersion of the listener: the layout of all later messages
  std::uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Challenge) == 32 && std::has_unique_object_representations_v<Challenge>, "wire layout");

/// Precedes each side's address.
struct Head {
  Nonce nonce;          ///< the connector's, in both directions
  std::uint64_t size;   ///< of the address, bytes
  Proof address_proof;  ///< proof_of_address()
  Proof proof;          ///< proof_of(): covers the Challenge and the fields above
};
static_assert(sizeof(Head) == 88 && std::has_unique_object_representations_v<Head>, "wire layout v2");

// The `side` of the functions below, so that a listener's proof does not serve as a connector's.
inline constexpr std::string_view kConnector = "bootstrap connector";
inline constexpr std::string_view kListener = "bootstrap listener";

inline Proof proof_of_address(const Secret& secret, ByteSpan address) noexcept {
  return secret.prove("bootstrap address", {address});
}

inline Proof proof_of(const Secret& secret, std::string_view side, const Challenge& challenge,
                      const Head& head) noexcept {
  return secret.prove(side, {bytes_of(challenge), bytes_of(head).first(offsetof(Head, proof))});
}

inline Head make_head(const Secret& secret, std::string_view side, const Challenge& challenge, const Nonce& nonce,
                      ByteSpan address) noexcept {
  Head head{nonce, address.size(), proof_of_address(secret, address), {}};
  head.proof = proof_of(secret, side, challenge, head);
  return head;
}

}  // namespace opal::am::bootstrap_wire
