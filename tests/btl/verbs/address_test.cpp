// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/address.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

namespace opal::btl::verbs {
namespace {

SocketAddress socket_v4(const char* text, std::uint16_t port) {
  SocketAddress socket{};
  socket.v4.sin_family = AF_INET;
  socket.v4.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &socket.v4.sin_addr), 1);
  return socket;
}

SocketAddress socket_v6(const char* text, std::uint16_t port) {
  SocketAddress socket{};
  socket.v6.sin6_family = AF_INET6;
  socket.v6.sin6_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET6, text, &socket.v6.sin6_addr), 1);
  return socket;
}

wire::Address blob_of(const SocketAddress& socket) {
  wire::Address address{wire::kMagic, wire::kWireVersion, 0, {1, 2}, fresh_nonce(), {}};
  EXPECT_TRUE(set_socket(address, socket.any));
  return address;
}

TEST(VerbsAddress, BothFamiliesComeBackAsTheyWere) {
  for (const SocketAddress& socket : {socket_v4("10.77.0.1", 4791), socket_v6("fd00::1:2", 18515)}) {
    const wire::Address blob = blob_of(socket);
    const auto decoded = decode(bytes_of(blob));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(to_string(socket_of(*decoded)), to_string(socket));
  }
  EXPECT_EQ(to_string(socket_v4("10.77.0.1", 4791)), "10.77.0.1:4791");
  EXPECT_EQ(to_string(socket_v6("fd00::1:2", 18515)), "[fd00::1:2]:18515");
}

TEST(VerbsAddress, AnyOtherLengthMagicVersionOrNoPortIsRefused) {
  const wire::Address good = blob_of(socket_v4("10.77.0.1", 4791));
  std::vector<std::byte> bytes(bytes_of(good).begin(), bytes_of(good).end());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode(ByteSpan{bytes}.first(size)).error().code, Errc::protocol) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode(bytes).error().code, Errc::protocol);
  wire::Address bad = good;
  bad.magic ^= 1;
  EXPECT_EQ(decode(bytes_of(bad)).error().code, Errc::protocol);
  bad = good;
  bad.version += 1;
  EXPECT_EQ(decode(bytes_of(bad)).error().code, Errc::version_mismatch);
  bad = good;
  bad.port = 0;
  EXPECT_EQ(decode(bytes_of(bad)).error().code, Errc::protocol);
}

TEST(VerbsAddress, OnlyInternetAddressesGoIn) {
  wire::Address address{};
  sockaddr local{};
  local.sa_family = AF_UNIX;
  EXPECT_EQ(set_socket(address, local).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace opal::btl::verbs
