// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/wire.hpp — the bytes of a bootstrap exchange, and its proofs.  Little endian.
//   listener: Challenge.  connector: Head, blob.  listener: Head, blob; or it hangs up.
// Each Head proves knowledge of the secret for its own blob, this challenge and this connector's nonce.  Pure
// functions.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "opal/core/bytes.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::am::bootstrap_wire {

inline constexpr std::uint64_t kMagic = 0x746f6f622d6f6c68;  // "hlo-boot"
inline constexpr std::uint32_t kVersion = 2;

/// The only bytes that are read without a proof: the layout of this struct never changes.
struct Challenge {
  std::uint64_t magic;
  std::uint32_t version;  ///< of everything that follows
  std::uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Challenge) == 32 && std::has_unique_object_representations_v<Challenge>, "wire layout");

/// Before each side's address blob.
struct Head {
  Nonce nonce;  ///< the connector's, in both directions
  std::uint64_t size;
  Proof blob;  ///< of the bytes that follow
  Proof proof;
};
static_assert(sizeof(Head) == 88 && std::has_unique_object_representations_v<Head>, "wire layout v2");

inline constexpr std::string_view kConnector = "bootstrap connector";
inline constexpr std::string_view kListener = "bootstrap listener";

inline Proof proof_of_blob(const Secret& secret, ByteSpan blob) noexcept {
  return secret.prove("bootstrap blob", {blob});
}

inline Proof proof_of(const Secret& secret, std::string_view side, const Challenge& challenge,
                      const Head& head) noexcept {
  return secret.prove(side, {bytes_of(challenge), bytes_of(head).first(offsetof(Head, proof))});
}

inline Head make_head(const Secret& secret, std::string_view side, const Challenge& challenge, const Nonce& nonce,
                      ByteSpan blob) noexcept {
  Head head{nonce, blob.size(), proof_of_blob(secret, blob), {}};
  head.proof = proof_of(secret, side, challenge, head);
  return head;
}

}  // namespace opal::am::bootstrap_wire
