// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/address.hpp — the checked form of a module's address blob.  Comes from a peer.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "opal/btl/verbs/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::verbs {

/// Errors: protocol (not an address of this transport), version_mismatch.
OPAL_EXPORT Result<wire::Address> decode(ByteSpan bytes);

/// Any IPv4 or IPv6 address and port; nothing else goes in.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

OPAL_EXPORT SocketAddress socket_of(const wire::Address& address) noexcept;
/// Fills in ip and port.  Errors: invalid_argument (neither IPv4 nor IPv6).
OPAL_EXPORT Result<void> set_socket(wire::Address& address, const sockaddr& socket) noexcept;

/// "10.0.0.1:4000", "[fd00::1]:4000".
OPAL_EXPORT std::string to_string(const SocketAddress& socket);

}  // namespace opal::btl::verbs
