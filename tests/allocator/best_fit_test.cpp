// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/best_fit.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace opal::allocator {
namespace {

TEST(BestFit, TakesTheSmallestRangeThatFitsAndOfSeveralTheLowest) {
  BestFit ranges{16};
  ASSERT_TRUE(ranges.grow(0x1000));
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t size : {0x100, 0x10, 0x40, 0x10, 0x40, 0x10}) blocks.push_back(*ranges.allocate(size, 16));
  for (const std::size_t hole : {0U, 2U, 4U}) ASSERT_TRUE(ranges.deallocate(blocks[hole]));
  EXPECT_EQ(*ranges.allocate(0x30, 16), blocks[2]);
  EXPECT_EQ(*ranges.allocate(0x40, 16), blocks[4]);
  EXPECT_EQ(*ranges.allocate(0x41, 16), blocks[0]);
}

TEST(BestFit, HonoursEveryPowerOfTwoAlignmentAndKeepsTheGapUsable) {
  BestFit ranges{16};
  ASSERT_TRUE(ranges.grow(1 << 20));
  for (std::uint64_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
    const auto block = ranges.allocate(24, alignment);
    ASSERT_TRUE(block) << alignment;
    EXPECT_EQ(*block % alignment, 0u) << alignment;
  }
  const auto small = ranges.allocate(16, 16);
  ASSERT_TRUE(small);
  EXPECT_LT(*small, 1u << 16) << "the space before aligned blocks serves later small ones";
}

TEST(BestFit, NeighboursCoalesceWhicheverIsFreedFirst) {
  for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}}) {
    BestFit ranges{16};
    ASSERT_TRUE(ranges.grow(64));
    ASSERT_TRUE(ranges.grow(128));
    std::uint64_t block[3];
    for (auto& begin : block) begin = *ranges.allocate(64, 1);
    for (const int index : order) ASSERT_TRUE(ranges.deallocate(block[index]));
    EXPECT_EQ(ranges.free_tail(), 3u * 64);
    EXPECT_EQ(*ranges.allocate(3 * 64, 1), 0u);
  }
}

TEST(BestFit, RefusesADoubleFreeAnInnerAddressAndAForeignOne) {
  BestFit ranges{16};
  ASSERT_TRUE(ranges.grow(4096));
  const auto block = *ranges.allocate(128, 16);
  for (const std::uint64_t wrong : {block + 16, std::uint64_t{128}, std::uint64_t{1} << 40}) {
    EXPECT_EQ(ranges.deallocate(wrong).error().code, Errc::invalid_argument) << wrong;
  }
  ASSERT_TRUE(ranges.deallocate(block));
  EXPECT_EQ(ranges.deallocate(block).error().code, Errc::invalid_argument);
  EXPECT_EQ(ranges.used(), 0u);
}

TEST(BestFit, SizesNearTheLimitOfTheTypeAreRefusedAndDoNotWrap) {
  BestFit ranges{16};
  EXPECT_EQ(ranges.allocate(0, 1).error().code, Errc::no_space) << "nothing is there yet";
  ASSERT_TRUE(ranges.grow(4096));
  for (const std::uint64_t size : {UINT64_MAX, UINT64_MAX - 15, UINT64_MAX - 4096}) {
    EXPECT_EQ(ranges.allocate(size, 4096).error().code, Errc::no_space);
  }
  EXPECT_TRUE(ranges.allocate(4096, 4096));
}

/// The model is a map of owners byte by byte (in units of the granule): slow, and obviously right.
TEST(BestFit, AgreesWithAByteMapOverARandomTrace) {
  constexpr std::uint64_t kUnit = 64;
  constexpr unsigned kSeed = 20240611;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  BestFit ranges{kUnit};
  std::vector<bool> model;  // whether a unit is in a block
  std::map<std::uint64_t, std::size_t> live;
  const auto best_fit = [&](std::size_t units, std::size_t alignment) {
    std::int64_t best = -1;
    std::size_t size = SIZE_MAX;
    for (std::size_t begin = 0, end = 0; begin < model.size(); begin = end + 1) {
      for (end = begin; end < model.size() && !model[end];) ++end;
      const std::size_t from = (begin + alignment - 1) / alignment * alignment;
      if (from + units > end || end - begin >= size) continue;
      best = static_cast<std::int64_t>(from);
      size = end - begin;
    }
    return best;
  };
  const auto tail = [&] {
    std::size_t free = 0;
    while (free < model.size() && !model[model.size() - 1 - free]) ++free;
    return free;
  };
  for (int step = 0; step < 30'000; ++step) {
    const auto dice = random() % 100;
    if (dice < 3 && model.size() < 500) {
      const std::size_t units = 1 + random() % 50;
      ASSERT_TRUE(ranges.grow(units * kUnit));
      model.resize(model.size() + units);
    } else if (live.empty() || dice < 55) {
      const std::uint64_t size = random() % (random() % 20 == 0 ? kUnit * 100 : kUnit * 8);
      const std::uint64_t alignment = std::uint64_t{1} << (random() % 12);
      const std::size_t units = size == 0 ? 1 : (size + kUnit - 1) / kUnit;
      const auto expected = best_fit(units, alignment <= kUnit ? 1 : alignment / kUnit);
      const auto block = ranges.allocate(size, alignment);
      ASSERT_EQ(block.has_value(), expected >= 0) << "step " << step;
      if (!block) continue;
      ASSERT_EQ(*block, static_cast<std::uint64_t>(expected) * kUnit) << "step " << step;
      std::fill_n(model.begin() + expected, units, true);
      live.emplace(*block, units);
    } else {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_TRUE(ranges.deallocate(victim->first)) << "step " << step;
      std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(victim->first / kUnit), victim->second, false);
      live.erase(victim);
    }
    ASSERT_EQ(ranges.blocks(), live.size());
    ASSERT_EQ(ranges.end(), model.size() * kUnit);
    ASSERT_EQ(ranges.free_tail(), tail() * kUnit);
    ASSERT_EQ(ranges.used(), static_cast<std::uint64_t>(std::count(model.begin(), model.end(), true)) * kUnit);
  }
}

TEST(BestFit, ManyFreeRangesAreNotLookedAtOneByOne) {
  // 250 000 holes too small for what is asked: with a walk over them this would take hours.
  constexpr std::uint64_t kHoles = 250'000;
  BestFit ranges{64};
  ASSERT_TRUE(ranges.grow(kHoles * 256 + (std::uint64_t{1} << 32)));
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 2 * kHoles; ++i) blocks.push_back(*ranges.allocate(128, 64));
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(ranges.deallocate(blocks[i]));
  for (std::uint64_t i = 0; i < kHoles; ++i) {
    const auto block = ranges.allocate(192, 64);
    ASSERT_TRUE(block);
    ASSERT_GE(*block, 2 * kHoles * 128);
    if (i % 2 == 0) {
      ASSERT_TRUE(ranges.deallocate(*block));
    }
  }
  EXPECT_EQ(*ranges.allocate(128, 64), 0U);
}

}  // namespace
}  // namespace opal::allocator
