// SPDX-License-Identifier: Apache-2.0
#include "opal/core/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace opal {
namespace {

constexpr std::size_t kPage = 4096;

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937_64 random{size};
  std::vector<std::byte> bytes(size);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

/// Copies inside of one buffer and checks each byte of it against memmove().
void expect_like_memmove(std::size_t to, std::size_t from, std::size_t size) {
  auto copied = random_bytes(std::max(to, from) + size + kPage);
  auto expected = copied;
  copy_host_memory(copied.data() + to, copied.data() + from, size);
  std::memmove(expected.data() + to, expected.data() + from, size);
  ASSERT_TRUE(copied == expected) << "to " << to << ", from " << from << ", " << size << " bytes";
}

TEST(Copy, EverySizeAroundTheLimitsIsCopiedAndNothingBesides) {
  for (std::size_t size = 0; size < 300; ++size) expect_like_memmove(8 * kPage + size % 37, size % 41, size);
  for (const std::size_t limit : {kVectorCopy, 2 * kVectorCopy, kPage, 4 * kPage, 12 * kPage}) {
    for (std::size_t size = limit - 130; size < limit + 130; ++size) expect_like_memmove(8 * kPage + 5, 3, size);
  }
}

TEST(Copy, AllPlacesOfBothRangesInTheirLines) {
  for (std::size_t to = 0; to < 64; ++to) {
    for (std::size_t from = 0; from < 64; ++from) expect_like_memmove(4 * kPage + to, from, kVectorCopy + 77);
  }
}

TEST(Copy, RangesThatOverlapAreCopiedAsByMemmove) {
  for (const std::size_t distance : {0, 1, 16, 31, 32, 33, 100, 127, 128, 129, 2000, 5000}) {
    expect_like_memmove(10, 10 + distance, 3 * kPage);
    expect_like_memmove(10 + distance, 10, 3 * kPage);
  }
}

TEST(Copy, MoreThanTheLastCacheHoldsIsCopiedPastTheCaches) {
  constexpr std::size_t kSize = (33U << 20U) + 13;
  const auto from = random_bytes(kSize);
  std::vector<std::byte> to(kSize + 100);
  copy_host_memory(to.data() + 50, from.data(), kSize);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + 50));
  EXPECT_EQ(to[49], std::byte{});
  EXPECT_EQ(to[50 + kSize], std::byte{});
}

TEST(Copy, OnlyTargetsSlightlyAheadInTheirPageAreSlowForTheKernelIfAnyAre) {
  EXPECT_FALSE(kernel_copies_slowly(kPage, 0));
  EXPECT_FALSE(kernel_copies_slowly(0, 8));
  EXPECT_FALSE(kernel_copies_slowly(kPage + 2064, 0));
  const bool affected = kernel_copies_slowly(8, 0);
  EXPECT_EQ(kernel_copies_slowly(kPage * 5 + 3 + 8, kPage + 3), affected);
}

}  // namespace
}  // namespace opal
