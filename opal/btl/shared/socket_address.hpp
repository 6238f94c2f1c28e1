// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/socket_address.hpp — where a process listens, as transports tell it to each other.
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

}  // namespace opal::btl
