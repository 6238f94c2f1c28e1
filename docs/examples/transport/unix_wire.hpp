// SPDX-License-Identifier: Apache-2.0
// unix_wire.hpp — all bytes that two processes exchange, and the proofs that they know the job's secret.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/system/secret.hpp"

namespace example {

using opal::bytes_of;
using opal::Nonce;
using opal::PeerId;
using opal::Proof;
using opal::Secret;

inline constexpr std::uint64_t kMagic = 0x3158494e554c504fU;

struct Address {
  std::uint64_t magic;
  PeerId id;
  Nonce name;  // of the listening socket
};
struct Hello {
  PeerId from;
  Nonce nonce;
  Proof proof;
};
struct Welcome {
  Proof proof;
};
struct Frame {  // 8 bytes: what follows is aligned
  opal::Tag tag;
  std::uint16_t unused[3];
};

inline Secret key_of(const Secret& job, const Nonce& name) { return job.derive("unix example", bytes_of(name)); }
inline Proof hello_proof(const Secret& key, const Hello& hello) {
  return key.prove("unix hello", {bytes_of(hello.from), bytes_of(hello.nonce)});
}
inline Proof welcome_proof(const Secret& key, const Hello& hello) {
  return key.prove("unix welcome", {bytes_of(hello)});
}

struct SocketName {
  explicit SocketName(const Nonce& name) {
    address.sun_family = AF_UNIX;  // an abstract name: it begins with a zero byte, and no file bears it
    std::copy(name.begin(), name.end(), reinterpret_cast<std::byte*>(address.sun_path + 1));
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  static constexpr socklen_t kSize = offsetof(sockaddr_un, sun_path) + 1 + sizeof(Nonce);
};

}  // namespace example
