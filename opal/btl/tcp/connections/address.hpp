// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/address.hpp — the address blob of a tcp module: its PeerId, its host, and where it listens.
// Wire (little endian):  u32 magic | u16 version | u16 count | PeerId | token | u64 host | count x SocketAddress
// `token` is random: together with the job's secret it opens the connection, so that knowing a PeerId is not enough.
// `host` names the peer's host and network namespace: loopback addresses only mean something there.
// Comes from a peer: decode() checks everything.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/shared/socket_address.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::tcp {

struct Address {
  PeerId id;
  Nonce token{};
  std::uint64_t host = 0;
  std::vector<SocketAddress> sockets;  ///< in order of preference, at most kMaxSockets
};
inline constexpr std::size_t kMaxSockets = 32;

OPAL_EXPORT std::vector<std::byte> encode(const Address& address);
/// Errors: protocol (not an address, truncated, trailing bytes, too many or no sockets), version_mismatch.
OPAL_EXPORT Result<Address> decode(ByteSpan bytes);

/// A number that processes share when they can reach each other by loopback: this boot of this host and its network
/// namespace.  Never 0; a random number if the kernel does not say.
std::uint64_t this_host() noexcept;

}  // namespace opal::btl::tcp
