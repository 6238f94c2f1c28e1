// SPDX-License-Identifier: Apache-2.0
// opal/core/system/secret.hpp — the secret of a job, and proofs that a process knows it.
// A proof is keyed BLAKE2b (libsodium's crypto_generichash) over a purpose and byte strings: the nonces of both sides
// and the message.  It shows that the sender knows the secret, but not which process the sender is.  Data after a
// handshake is not encrypted: this stops processes that can connect, not an attacker that can change packets.
// A Secret is a value; its destructor wipes its bytes.  Threads: safe from any thread.
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

using Nonce = std::array<std::byte, 16>;  ///< random bytes for one use
using Proof = std::array<std::byte, 32>;  ///< a hash that only a process with the Secret can compute

/// Random bytes of the kernel.  Aborts the process if there is no random source, as do the functions below.
OPAL_EXPORT Nonce fresh_nonce() noexcept;

class OPAL_EXPORT Secret {
 public:
  static constexpr std::size_t kLeastText = 16;   ///< bytes; shorter texts can be guessed
  static constexpr std::size_t kMostText = 4096;  ///< bytes

  /// The key of all zeros, which is public: a proof with it proves nothing.
  Secret() noexcept = default;
  Secret(const Secret&) noexcept = default;
  Secret& operator=(const Secret&) noexcept = default;
  ~Secret();

  /// A random text for from_text(): 64 hexadecimal digits.
  static std::string random_text();

  /// Makes the Secret of `text`; equal texts make equal Secrets.  Errors: invalid_argument (shorter than kLeastText or
  /// longer than kMostText).
  static Result<Secret> from_text(std::string_view text);

  /// Reads a text for from_text(), which checks its length.  Errors: permission (its group or others have any right, or
  /// the owner is neither this user nor root, or open(2) refuses), invalid_argument (not a regular file), os.
  static Result<std::string> read_file(const std::string& path);

  /// A Secret for one purpose, a hash of this one, `purpose` and `detail`.
  [[nodiscard]] Secret derive(std::string_view purpose, ByteSpan detail) const noexcept;

  /// The proof over `purpose` and `parts`.  Requires: `purpose` determines the number and the lengths of the parts.
  [[nodiscard]] Proof prove(std::string_view purpose, std::initializer_list<ByteSpan> parts) const noexcept;

 private:
  std::array<std::byte, 32> key_{};
};

/// True if equal; takes the same time wherever they differ.
OPAL_EXPORT bool same(const Proof& a, const Proof& b) noexcept;

}  // namespace opal
