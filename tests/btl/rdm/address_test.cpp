// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/address.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace opal::btl::rdm {
namespace {

constexpr std::uint32_t kMagic = 0x1234;

Address an_address() {
  Address address{};
  address.head.magic = kMagic;
  address.head.id = {1, 2};
  address.head.token = fresh_nonce();
  address.head.host = 7;
  address.head.process = 42;
  address.head.format = 3;
  address.head.network = {"tcp;ofi_rxm"};
  address.name.assign(16, std::byte{0x55});
  return address;
}

TEST(RdmAddress, ComesBackAsItWas) {
  const Address before = an_address();
  const auto after = decode(encode(before), kMagic);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->head.id, before.head.id);
  EXPECT_EQ(after->head.token, before.head.token);
  EXPECT_EQ(after->head.process, 42U);
  EXPECT_EQ(after->name, before.name);
}

TEST(RdmAddress, EveryOtherLengthIsRefused) {
  std::vector<std::byte> bytes = encode(an_address());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode(ByteSpan{bytes}.first(size), kMagic)) << size;
  bytes.push_back({});
  EXPECT_FALSE(decode(bytes, kMagic));
  Address nameless = an_address();
  nameless.name.clear();
  EXPECT_FALSE(decode(encode(nameless), kMagic));
  Address long_name = an_address();
  long_name.name.resize(wire::kMostName + 1);
  EXPECT_FALSE(decode(encode(long_name), kMagic));
}

TEST(RdmAddress, AnotherVersionIsNamedAsSuch) {
  std::vector<std::byte> bytes = encode(an_address());
  bytes[offsetof(wire::AddressHead, version)] ^= std::byte{1};
  EXPECT_EQ(decode(bytes, kMagic).error().code, Errc::version_mismatch);
  bytes = encode(an_address());
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(decode(bytes, kMagic).error().code, Errc::protocol);
}

TEST(RdmAddress, APeerOfAnotherNetworkIsUnreachable) {
  const Address own = an_address();
  Address peer = an_address();
  EXPECT_TRUE(check_network(peer.head, own.head));
  peer.head.network = {"efa"};
  EXPECT_EQ(check_network(peer.head, own.head).error().code, Errc::unreachable);
  peer = an_address();
  peer.head.format = 4;
  EXPECT_EQ(check_network(peer.head, own.head).error().code, Errc::unreachable);
}

}  // namespace
}  // namespace opal::btl::rdm
