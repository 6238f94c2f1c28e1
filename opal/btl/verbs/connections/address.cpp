// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/address.hpp"

namespace opal::btl::verbs {

Result<wire::Address> decode(ByteSpan bytes) {
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

SocketAddress socket_of(const wire::Address& address) noexcept {
  SocketAddress socket{address.ip, {}};
  socket.set_port(address.port);
  return socket;
}

}  // namespace opal::btl::verbs
