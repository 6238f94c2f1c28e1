// SPDX-License-Identifier: Apache-2.0
// opal/core/system/secret.hpp — the secret that only the processes of a job know, and proofs of that knowledge.
// A proof is keyed BLAKE2b (libsodium's crypto_generichash) over a purpose, fresh nonces of both sides and the message;
// it tells that the sender knows the secret, not which of the processes that know it.  What follows a handshake is not
// encrypted: this keeps out those that can connect, not those that can change packets in flight. Values; the bytes are
// wiped when a Secret dies.  Threads: everything is safe from any thread.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal {

using Nonce = std::array<std::byte, 16>;  ///< used once
using Proof = std::array<std::byte, 32>;  ///< that its sender knows a Secret

/// From the kernel's random source.
OPAL_EXPORT Nonce fresh_nonce() noexcept;

class OPAL_EXPORT Secret {
 public:
  static constexpr std::size_t kLeastText = 16;   ///< bytes; shorter texts can be guessed
  static constexpr std::size_t kMostText = 4096;  ///< bytes

  /// The public one: knowing it proves nothing.
  Secret() noexcept = default;
  Secret(const Secret&) noexcept = default;
  Secret& operator=(const Secret&) noexcept = default;
  ~Secret();

  /// Fresh text for from_text().
  static std::string random_text();

  /// The same text makes the same Secret.  Errors: invalid_argument (too short, too long).
  static Result<Secret> from_text(std::string_view text);

  /// The text of a file for from_text().  Errors: permission (others than its owner may read or write it, or the owner
  /// is neither this user nor root), invalid_argument (too short, too long), os.
  static Result<std::string> read_file(const std::string& path);

  /// Another Secret, for one use of this one.
  [[nodiscard]] Secret derive(std::string_view purpose, ByteSpan detail) const noexcept;

  /// Proves knowledge of the Secret together with `parts`, whose lengths must be fixed by `purpose`.
  [[nodiscard]] Proof prove(std::string_view purpose, std::initializer_list<ByteSpan> parts) const noexcept;

 private:
  std::array<std::byte, 32> key_{};
};

/// Takes the same time wherever they differ.
OPAL_EXPORT bool same(const Proof& a, const Proof& b) noexcept;

}  // namespace opal
