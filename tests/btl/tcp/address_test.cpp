// SPDX-License-Identifier: Apache-2.0
// Addresses and the choice of interfaces.
#include "opal/btl/tcp/connections/address.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "opal/btl/tcp/connections/interfaces.hpp"

namespace opal::btl::tcp {
namespace {

SocketAddress ip(const char* text, std::uint16_t port = 0) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    return *SocketAddress::from(reinterpret_cast<const sockaddr&>(v4));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  return *SocketAddress::from(reinterpret_cast<const sockaddr&>(v6));
}

TEST(TcpAddress, ComesBackAsItWent) {
  const Address address{PeerId::random(), fresh_nonce(), 77, {ip("10.1.2.3", 4000), ip("fd00::7", 65535)}};
  const auto decoded = decode(encode(address));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, address.id);
  EXPECT_EQ(decoded->token, address.token);
  EXPECT_EQ(decoded->host, 77U);
  EXPECT_EQ(decoded->sockets, address.sockets);
  EXPECT_EQ(to_string(decoded->sockets[0]), "10.1.2.3:4000");
  EXPECT_EQ(to_string(decoded->sockets[1]), "[fd00::7]:65535");
}

TEST(TcpAddress, TruncatedLengthenedAndForeignBytesAreRefused) {
  const std::vector<std::byte> good = encode({PeerId::random(), {}, 1, {ip("10.1.2.3", 1), ip("10.1.2.4", 1)}});
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(decode(ByteSpan{good}.first(size)).error().code, Errc::protocol) << size;
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_EQ(decode(longer).error().code, Errc::protocol);
  auto foreign = good;
  foreign[0] ^= std::byte{1};
  EXPECT_EQ(decode(foreign).error().code, Errc::protocol);
  auto newer = good;
  newer[4] = std::byte{99};
  EXPECT_EQ(decode(newer).error().code, Errc::version_mismatch);
  auto none = good;
  none[6] = none[7] = std::byte{0};
  EXPECT_EQ(decode(none).error().code, Errc::protocol);
  auto many = good;
  many[6] = many[7] = std::byte{0xff};
  EXPECT_EQ(decode(many).error().code, Errc::protocol);
}

std::vector<Interface> host_with_everything() {
  return {{"lo", ip("127.0.0.1")},       {"lo", ip("::1")},      {"eth0", ip("10.1.0.5")}, {"eth0", ip("fd00::5")},
          {"docker0", ip("172.17.0.1")}, {"ib0", ip("10.2.0.5")}};
}

std::vector<std::string> chosen(const char* include, const char* exclude,
                                const std::vector<Interface>& all = host_with_everything()) {
  std::vector<std::string> result;
  for (const Interface& one : select(all, *InterfaceFilter::parse(include), *InterfaceFilter::parse(exclude))) {
    result.push_back(to_string(one.address));
  }
  return result;
}

TEST(TcpInterfaces, LoopbackIsTheLastResort) {
  EXPECT_THAT(chosen("", ""), ::testing::ElementsAre("10.1.0.5:0", "[fd00::5]:0", "172.17.0.1:0", "10.2.0.5:0"));
  EXPECT_THAT(chosen("", "", {{"lo", ip("127.0.0.1")}}), ::testing::ElementsAre("127.0.0.1:0"));
  EXPECT_THAT(chosen("lo", ""), ::testing::ElementsAre("127.0.0.1:0", "[::1]:0"));
  EXPECT_THAT(chosen("lo,ib0", ""), ::testing::ElementsAre("10.2.0.5:0", "127.0.0.1:0", "[::1]:0"));
}

TEST(TcpInterfaces, AreChosenByNameAndByNetwork) {
  EXPECT_THAT(chosen("eth0", ""), ::testing::ElementsAre("10.1.0.5:0", "[fd00::5]:0"));
  EXPECT_THAT(chosen(" 10.2.0.0/16 , fd00::/8", ""), ::testing::ElementsAre("[fd00::5]:0", "10.2.0.5:0"));
  EXPECT_THAT(chosen("", "docker0,10.0.0.0/8"), ::testing::ElementsAre("[fd00::5]:0"));
  EXPECT_THAT(chosen("eth0", "fd00::5/128"), ::testing::ElementsAre("10.1.0.5:0"));
  EXPECT_THAT(chosen("10.1.0.4/31", ""), ::testing::ElementsAre("10.1.0.5:0"));
  EXPECT_THAT(chosen("10.1.0.6/31", ""), ::testing::IsEmpty());
  EXPECT_THAT(chosen("0.0.0.0/0", "lo"), ::testing::SizeIs(3));
  EXPECT_THAT(chosen("eth1", ""), ::testing::IsEmpty());
}

TEST(TcpInterfaces, AListThatIsNoneIsRefused) {
  for (const char* bad : {"10.1.0.0/33", "10.1.0.0/", "10.1.0.0/x", "fd00::/129", "10.1/16", "/8", "eth0/24"}) {
    const auto filter = InterfaceFilter::parse(bad);
    ASSERT_FALSE(filter) << bad;
    EXPECT_EQ(filter.error().code, Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace opal::btl::tcp
