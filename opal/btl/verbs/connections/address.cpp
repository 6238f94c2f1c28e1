// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace opal::btl::verbs {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

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
  SocketAddress socket{};
  if (std::equal(kMapped.begin(), kMapped.end(), address.ip.begin())) {
    socket.v4.sin_family = AF_INET;
    socket.v4.sin_port = htons(address.port);
    std::memcpy(&socket.v4.sin_addr, address.ip.data() + kMapped.size(), sizeof socket.v4.sin_addr);
  } else {
    socket.v6.sin6_family = AF_INET6;
    socket.v6.sin6_port = htons(address.port);
    std::memcpy(&socket.v6.sin6_addr, address.ip.data(), sizeof socket.v6.sin6_addr);
  }
  return socket;
}

Result<void> set_socket(wire::Address& address, const sockaddr& socket) noexcept {
  if (socket.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &socket, sizeof v4);
    std::copy(kMapped.begin(), kMapped.end(), address.ip.begin());
    std::memcpy(address.ip.data() + kMapped.size(), &v4.sin_addr, sizeof v4.sin_addr);
    address.port = ntohs(v4.sin_port);
  } else if (socket.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &socket, sizeof v6);
    std::memcpy(address.ip.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    address.port = ntohs(v6.sin6_port);
  } else {
    return Error{Errc::invalid_argument, 0, "verbs: neither an IPv4 nor an IPv6 address", socket.sa_family};
  }
  return {};
}

std::string to_string(const SocketAddress& socket) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (socket.any.sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &socket.v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(socket.v4.sin_port));
  }
  ::inet_ntop(AF_INET6, &socket.v6.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(socket.v6.sin6_port));
}

}  // namespace opal::btl::verbs
