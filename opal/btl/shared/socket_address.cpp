// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/socket_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace opal::btl {
namespace {

constexpr std::array<std::uint8_t, 12> kV4Mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

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

Result<SocketAddress> SocketAddress::from(const sockaddr& address) noexcept {
  SocketAddress result;
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    std::copy(kV4Mapped.begin(), kV4Mapped.end(), result.ip.begin());
    std::memcpy(result.ip.data() + kV4Mapped.size(), &v4.sin_addr, 4);
    std::memcpy(result.port.data(), &v4.sin_port, 2);
  } else if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    std::memcpy(result.ip.data(), &v6.sin6_addr, 16);
    std::memcpy(result.port.data(), &v6.sin6_port, 2);
  } else {
    return Error{Errc::not_supported, 0, "socket address: neither IPv4 nor IPv6", address.sa_family};
  }
  return result;
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

}  // namespace opal::btl
