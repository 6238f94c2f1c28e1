// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/proofs.hpp — the proofs in the messages of a transport's handshake: both sides show that they know a
// key.  The last member of such a message is its `proof`, which covers all members before it, and what the message
// answers.  So it cannot be used for another message, peer or connection.  Message::kPurpose names the message.
// Pure functions.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "opal/core/bytes.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl {

/// A key that only the two ends of one handshake share.  `key`: of the handshake; the nonces: of both sides.
inline Secret session_key(const Secret& key, std::string_view purpose, const Nonce& connector,
                          const Nonce& acceptor) noexcept {
  return key.derive(purpose, bytes_of(std::array{connector, acceptor}));
}

/// Fills in the proof, cut to the size for which the message has room.  `covered`: what it covers beside the message.
template <class Message, std::same_as<ByteSpan>... Covered>
void sign(const Secret& key, Message& message, Covered... covered) noexcept {
  static_assert(offsetof(Message, proof) + sizeof message.proof == sizeof message, "the proof is the last member");
  const Proof whole = key.prove(Message::kPurpose, {covered..., bytes_of(message).first(offsetof(Message, proof))});
  std::copy_n(whole.begin(), message.proof.size(), message.proof.begin());
}

/// True if sign() has filled in the proof with the same key and `covered`.
template <class Message, std::same_as<ByteSpan>... Covered>
[[nodiscard]] bool is_genuine(const Secret& key, const Message& message, Covered... covered) noexcept {
  Message right = message;
  sign(key, right, covered...);
  Proof given{};
  Proof expected{};  // of the size that same() takes
  std::copy(message.proof.begin(), message.proof.end(), given.begin());
  std::copy(right.proof.begin(), right.proof.end(), expected.begin());
  return same(given, expected);
}

}  // namespace opal::btl
