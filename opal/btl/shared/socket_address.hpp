// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/socket_address.hpp — an IP address and a port, as transports publish it to peers.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl {

/// An IPv6 or v4-mapped IPv4 address, and a port, in network byte order.  The layout in memory is that on the wire.  An
/// IPv6 scope is not kept.
struct OPAL_EXPORT SocketAddress {
  std::array<std::uint8_t, 16> ip{};
  std::array<std::uint8_t, 2> port{};

  friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
  [[nodiscard]] bool is_v4() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] std::uint16_t port_number() const noexcept;  ///< in host byte order
  void set_port(std::uint16_t number) noexcept;

  /// Errors: not_supported (neither IPv4 nor IPv6).
  static Result<SocketAddress> from(const sockaddr& address) noexcept;
  /// Fills `storage`: AF_INET for a v4-mapped address, else AF_INET6.  Returns its length in bytes.
  socklen_t to(sockaddr_storage& storage) const noexcept;
};
static_assert(sizeof(SocketAddress) == 18, "wire layout v1");

/// "10.0.0.1:4000", "[fe80::1]:4000".
OPAL_EXPORT std::string to_string(const SocketAddress& address);

}  // namespace opal::btl
