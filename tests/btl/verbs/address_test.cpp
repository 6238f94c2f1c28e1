// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/address.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

namespace opal::btl::verbs {
namespace {

SocketAddress socket_v4(const char* text, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &v4.sin_addr), 1);
  return *SocketAddress::from(reinterpret_cast<const sockaddr&>(v4));
}

SocketAddress socket_v6(const char* text, std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
  return *SocketAddress::from(reinterpret_cast<const sockaddr&>(v6));
}

wire::Address blob_of(const SocketAddress& socket) {
  return {wire::kMagic, wire::kWireVersion, socket.port_number(), {1, 2}, fresh_nonce(), socket.ip};
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

}  // namespace
}  // namespace opal::btl::verbs
