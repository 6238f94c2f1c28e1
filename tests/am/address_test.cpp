// SPDX-License-Identifier: Apache-2.0
// Addresses: what goes in comes out; whatever a peer sends instead is refused and never read beyond its end.
#include "opal/am/bootstrap/address.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

namespace opal::am {
namespace {

std::vector<std::byte> sample() {
  static const std::vector<std::byte> first(40, std::byte{1});
  static const std::vector<std::byte> second(7, std::byte{2});
  return encode({{0x1122334455667788, 42}, {{"sm", first}, {"tcp", second}, {"self", {}}}});
}

/// Decodes a copy of exactly that size, so that a sanitizer sees a read beyond the end.
Result<Address> decode_exact(ByteSpan bytes, std::unique_ptr<std::byte[]>& copy) {
  copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  return decode({copy.get(), bytes.size()});
}

TEST(Address, ComesOutAsItWentIn) {
  const std::vector<std::byte> blob = sample();
  const auto address = decode(blob);
  ASSERT_TRUE(address);
  EXPECT_EQ(address->id, (PeerId{0x1122334455667788, 42}));
  ASSERT_EQ(address->transports.size(), 3u);
  EXPECT_EQ(address->transports[0].transport, "sm");
  EXPECT_EQ(address->transports[0].address.size(), 40u);
  EXPECT_EQ(address->transports[1].transport, "tcp");
  EXPECT_EQ(address->transports[1].address[6], std::byte{2});
  EXPECT_EQ(address->transports[2].transport, "self");
  EXPECT_TRUE(address->transports[2].address.empty());
}

TEST(Address, EveryTruncationIsRefused) {
  const std::vector<std::byte> blob = sample();
  std::unique_ptr<std::byte[]> copy;
  for (std::size_t size = 0; size < blob.size(); ++size) {
    const auto address = decode_exact(ByteSpan{blob}.first(size), copy);
    ASSERT_FALSE(address) << size;
    EXPECT_EQ(address.error().code, Errc::protocol);
  }
}

TEST(Address, BytesAfterTheEndAreRefused) {
  std::vector<std::byte> blob = sample();
  blob.push_back(std::byte{0});
  const auto address = decode(blob);
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, Errc::protocol);
}

TEST(Address, AnotherVersionIsSaidToBeOne) {
  std::vector<std::byte> blob = sample();
  blob[4] = std::byte{0x77};
  const auto address = decode(blob);
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, Errc::version_mismatch);
}

TEST(Address, MoreTransportsThanAllowedAreRefused) {
  Address many{{1, 2}, {}};
  for (std::size_t i = 0; i <= kMaxTransports; ++i) many.transports.push_back({"x", {}});
  EXPECT_FALSE(decode(encode(many)));
  many.transports.pop_back();
  EXPECT_TRUE(decode(encode(many)));
}

TEST(Address, LongerThanAnyAddressIsRefused) {
  const std::vector<std::byte> large(kMaxAddressSize);
  EXPECT_FALSE(decode(encode({{1, 2}, {{"sm", large}}})));
}

TEST(Address, ANameThatNeverEndsIsCutAtItsField) {
  std::vector<std::byte> blob = encode({{1, 2}, {{"abcdefghijklmnopqrs", {}}}});
  auto address = decode(blob);
  ASSERT_TRUE(address);
  EXPECT_EQ(address->transports[0].transport, "abcdefghijklmno");
  std::memset(blob.data() + 24, 'z', 16);  // a peer need not end it
  address = decode(blob);
  ASSERT_TRUE(address);
  EXPECT_EQ(address->transports[0].transport, std::string(16, 'z'));
}

TEST(Address, NoGarbageCrashesOrReachesBeyondItsBytes) {
  std::mt19937 random{20141};
  const std::vector<std::byte> good = sample();
  std::unique_ptr<std::byte[]> copy;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> blob = good;
    for (unsigned flips = random() % 8 + 1; flips > 0; --flips) blob[random() % blob.size()] = std::byte(random());
    blob.resize(random() % (blob.size() + 8));
    const auto address = decode_exact(blob, copy);
    if (!address) continue;
    std::size_t total = 0;
    for (const TransportAddress& entry : address->transports) {
      EXPECT_LE(entry.transport.size(), 16u);
      for (const std::byte byte : entry.address) total += std::to_integer<std::size_t>(byte);
    }
    EXPECT_LE(total, blob.size() * 255);
  }
}

}  // namespace
}  // namespace opal::am
