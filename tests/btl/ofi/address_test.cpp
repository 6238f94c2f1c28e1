// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/connections/address.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace opal::btl::ofi {
namespace {

Address an_address() {
  Address address{};
  address.head.id = {1, 2};
  address.head.token = fresh_nonce();
  address.head.host = 7;
  address.head.process = 42;
  address.head.format = 3;
  address.head.provider = provider_name("tcp;ofi_rxm");
  address.name.assign(16, std::byte{0x55});
  return address;
}

TEST(OfiAddress, ComesBackAsItWas) {
  const Address before = an_address();
  const auto after = decode(encode(before));
  ASSERT_TRUE(after);
  EXPECT_EQ(after->head.id, before.head.id);
  EXPECT_EQ(after->head.token, before.head.token);
  EXPECT_EQ(after->head.process, 42U);
  EXPECT_EQ(after->name, before.name);
}

TEST(OfiAddress, EveryOtherLengthIsRefused) {
  std::vector<std::byte> bytes = encode(an_address());
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode(ByteSpan{bytes}.first(size))) << size;
  bytes.push_back({});
  EXPECT_FALSE(decode(bytes));
  Address nameless = an_address();
  nameless.name.clear();
  EXPECT_FALSE(decode(encode(nameless)));
  Address long_name = an_address();
  long_name.name.resize(wire::kMostName + 1);
  EXPECT_FALSE(decode(encode(long_name)));
}

TEST(OfiAddress, AnotherVersionIsNamedAsSuch) {
  std::vector<std::byte> bytes = encode(an_address());
  bytes[offsetof(wire::AddressHead, version)] ^= std::byte{1};
  EXPECT_EQ(decode(bytes).error().code, Errc::version_mismatch);
  bytes = encode(an_address());
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(decode(bytes).error().code, Errc::protocol);
}

TEST(OfiAddress, APeerOfAnotherProviderIsUnreachable) {
  const Address own = an_address();
  Address peer = an_address();
  EXPECT_TRUE(check_provider(peer.head, own.head));
  peer.head.provider = provider_name("efa");
  EXPECT_EQ(check_provider(peer.head, own.head).error().code, Errc::unreachable);
  peer = an_address();
  peer.head.format = 4;
  EXPECT_EQ(check_provider(peer.head, own.head).error().code, Errc::unreachable);
}

}  // namespace
}  // namespace opal::btl::ofi
