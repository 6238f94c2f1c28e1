// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/address.hpp — the address of a tcp module: its PeerId, its host, and where it listens.
// Wire (little endian):  u32 magic | u16 version | u16 count | PeerId | token | u64 host | count x SocketAddress
// `token` is random.  The key of a connection derives from it and the job's secret, so a PeerId alone is not enough.
// `host` is host_number() of the peer's network namespace; its loopback addresses are usable only with the same value.
// The bytes come from a peer: decode() checks them.
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

/// The wire format.  Leaves out sockets beyond kMaxSockets.
OPAL_EXPORT std::vector<std::byte> encode(const Address& address);
/// Errors: protocol (not an address, truncated, trailing bytes, too many or no sockets), version_mismatch.
OPAL_EXPORT Result<Address> decode(ByteSpan bytes);

}  // namespace opal::btl::tcp
