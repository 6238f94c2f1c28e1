// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/address.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "opal/core/system/fd.hpp"

namespace opal::btl::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x70637431;  // "1tcp"
constexpr std::uint16_t kVersion = 2;
constexpr std::array<std::uint8_t, 12> kV4Mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

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

bool SocketAddress::is_v4() const noexcept { return std::equal(kV4Mapped.begin(), kV4Mapped.end(), ip.begin()); }

bool SocketAddress::is_loopback() const noexcept {
  if (is_v4()) return ip[12] == 127;
  return std::all_of(ip.begin(), ip.end() - 1, [](std::uint8_t byte) { return byte == 0; }) && ip[15] == 1;
}

std::uint16_t SocketAddress::port_number() const noexcept { return static_cast<std::uint16_t>(port[0] << 8 | port[1]); }

void SocketAddress::set_port(std::uint16_t number) noexcept {
  port = {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 0xff)};
}

SocketAddress SocketAddress::from(const sockaddr_in& address) noexcept {
  SocketAddress result;
  std::copy(kV4Mapped.begin(), kV4Mapped.end(), result.ip.begin());
  std::memcpy(result.ip.data() + kV4Mapped.size(), &address.sin_addr, 4);
  std::memcpy(result.port.data(), &address.sin_port, 2);
  return result;
}

SocketAddress SocketAddress::from(const sockaddr_in6& address) noexcept {
  SocketAddress result;
  std::memcpy(result.ip.data(), &address.sin6_addr, 16);
  std::memcpy(result.port.data(), &address.sin6_port, 2);
  return result;
}

Result<SocketAddress> SocketAddress::from(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) return from(reinterpret_cast<const sockaddr_in&>(address));
  if (address.sa_family == AF_INET6) return from(reinterpret_cast<const sockaddr_in6&>(address));
  return Error{Errc::not_supported, 0, "socket address: neither IPv4 nor IPv6", address.sa_family};
}

socklen_t SocketAddress::to(sockaddr_storage& storage) const noexcept {
  storage = {};
  if (is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, ip.data() + kV4Mapped.size(), 4);
    std::memcpy(&v4.sin_port, port.data(), 2);
    std::memcpy(&storage, &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  std::memcpy(&v6.sin6_addr, ip.data(), 16);
  std::memcpy(&v6.sin6_port, port.data(), 2);
  std::memcpy(&storage, &v6, sizeof v6);
  return sizeof v6;
}

std::string to_string(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.is_v4()) {
    ::inet_ntop(AF_INET, address.ip.data() + kV4Mapped.size(), text, sizeof text);
    return fmt::format("{}:{}", text, address.port_number());
  }
  ::inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  return fmt::format("[{}]:{}", text, address.port_number());
}

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
  if (header.magic != kMagic) return Error{Errc::protocol, 0, "tcp address: not one", header.magic};
  if (header.version != kVersion) {
    return Error{Errc::version_mismatch, 0, "tcp address: of another version", header.version};
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

std::uint64_t this_host() noexcept {
  const Fd boot_id{::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)};
  char text[36] = {};
  struct stat network {};
  if (!boot_id || ::read(boot_id.get(), text, sizeof text) != sizeof text ||
      ::stat("/proc/self/ns/net", &network) != 0) {
    return PeerId::random().low | 1;
  }
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&](ByteSpan bytes) {
    for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3;
  };
  mix(std::as_bytes(std::span{text}));
  mix(bytes_of(network.st_ino));
  return hash | 1;
}

}  // namespace opal::btl::tcp
