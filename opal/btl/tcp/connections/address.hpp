// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/address.hpp — the address blob of a tcp module: its PeerId, its host, and where it listens.
// Wire (little endian):  u32 magic | u16 version | u16 count | PeerId | token | u64 host | count x SocketAddress
// `token` is random: together with the job's secret it opens the connection, so that knowing a PeerId is not enough.
// `host` names the peer's host and network namespace: loopback addresses only mean something there.
// Comes from a peer: decode() checks everything.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "opal/btl/peer_id.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::tcp {

/// An IPv6 address or a v4-mapped IPv4 one, and a port, both in network byte order.  The same in memory and on the
/// wire.
struct OPAL_EXPORT SocketAddress {
  std::array<std::uint8_t, 16> ip{};
  std::array<std::uint8_t, 2> port{};

  friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
  [[nodiscard]] bool is_v4() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] std::uint16_t port_number() const noexcept;
  void set_port(std::uint16_t number) noexcept;

  static SocketAddress from(const sockaddr_in& address) noexcept;
  static SocketAddress from(const sockaddr_in6& address) noexcept;
  /// Errors: not_supported (neither IPv4 nor IPv6).
  static Result<SocketAddress> from(const sockaddr& address) noexcept;
  /// Fills `storage` with an AF_INET address for v4-mapped ones, else AF_INET6; returns its length.
  socklen_t to(sockaddr_storage& storage) const noexcept;
};
static_assert(sizeof(SocketAddress) == 18, "wire layout v1");

/// "10.0.0.1:4000", "[fe80::1]:4000".
OPAL_EXPORT std::string to_string(const SocketAddress& address);

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
