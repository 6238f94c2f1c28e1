// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/address.hpp"

#include <algorithm>
#include <cstring>

namespace opal::btl::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x70637431;  // "1tcp"
constexpr std::uint16_t kVersion = 2;

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t count;
  PeerId id;
  Nonce token;
  std::uint64_t host;
};
static_assert(sizeof(Header) == 48 && std::has_unique_object_representations_v<Header>, "wire layout v2");

}  // namespace

std::vector<std::byte> encode(const Address& address) {
  const std::size_t count = std::min(address.sockets.size(), kMaxSockets);
  const Header header{kMagic, kVersion, static_cast<std::uint16_t>(count), address.id, address.token, address.host};
  std::vector<std::byte> bytes(sizeof header + count * sizeof(SocketAddress));
  std::memcpy(bytes.data(), &header, sizeof header);
  if (count != 0) std::memcpy(bytes.data() + sizeof header, address.sockets.data(), count * sizeof(SocketAddress));
  return bytes;
}

Result<Address> decode(ByteSpan bytes) {
  Header header{};
  if (!read_object(bytes, header)) return Error{Errc::protocol, 0, "tcp address: truncated", bytes.size()};
  if (header.magic != kMagic) return Error{Errc::protocol, 0, "tcp address: wrong magic number", header.magic};
  if (header.version != kVersion) {
    return Error{Errc::version_mismatch, 0, "tcp address: made by another version of OPAL", header.version};
  }
  if (header.count == 0 || header.count > kMaxSockets) {
    return Error{Errc::protocol, 0, "tcp address: no sockets or too many", header.count};
  }
  if (bytes.size() != sizeof header + header.count * sizeof(SocketAddress)) {
    return Error{Errc::protocol, 0, "tcp address: wrong length", bytes.size()};
  }
  Address address{header.id, header.token, header.host, std::vector<SocketAddress>(header.count)};
  std::memcpy(address.sockets.data(), bytes.data() + sizeof header, header.count * sizeof(SocketAddress));
  return address;
}

}  // namespace opal::btl::tcp
