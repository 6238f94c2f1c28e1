// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/address.hpp — checks the address of a peer's module.  Pure functions.
#pragma once
#include "opal/btl/shared/socket_address.hpp"
#include "opal/btl/verbs/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::verbs {

/// Errors: protocol (not an address of this transport), version_mismatch.
inline Result<wire::Address> decode(ByteSpan bytes) {
  wire::Address address{};
  if (bytes.size() != sizeof address || !read_object(bytes, address) || address.magic != wire::kMagic) {
    return Error{Errc::protocol, 0, "verbs address: not one", bytes.size()};
  }
  if (address.version != wire::kWireVersion) {
    return Error{Errc::version_mismatch, 0, "verbs address: made by another version of OPAL", address.version};
  }
  if (address.port == 0) return Error{Errc::protocol, 0, "verbs address: no port"};
  return address;
}

inline SocketAddress socket_of(const wire::Address& address) noexcept {
  SocketAddress socket{address.ip, {}};
  socket.set_port(address.port);
  return socket;
}

}  // namespace opal::btl::verbs
