// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/first_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace opal::allocator {
namespace {

TEST(FirstFit, TakesTheLowestRangeThatFits) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(0x1000, 0x100));
  ASSERT_TRUE(ranges.add(0x4000, 0x1000));
  EXPECT_EQ(*ranges.allocate(0x200, 16), 0x4000u);
  EXPECT_EQ(*ranges.allocate(0x80, 16), 0x1000u);
  EXPECT_EQ(*ranges.allocate(0x80, 16), 0x1080u);
  EXPECT_EQ(*ranges.allocate(0x80, 16), 0x4200u);
}

TEST(FirstFit, HonoursEveryPowerOfTwoAlignmentAndKeepsTheGapUsable) {
  FirstFit ranges{16};
  ASSERT_TRUE(ranges.add(0x10, 1 << 20));
  for (std::uint64_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
    const auto block = ranges.allocate(24, alignment);
    ASSERT_TRUE(block) << alignment;
    EXPECT_EQ(*block % alignment, 0u) << alignment;
  }
  const auto small = ranges.allocate(16, 16);
  ASSERT_TRUE(small);
  EXPECT_LT(*small, 1u << 16) << "the space before aligned blocks serves later small ones";
}

TEST(FirstFit, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(0, 4096));
  EXPECT_EQ(ranges.allocate(8, 0).error().code, Errc::invalid_argument);
  EXPECT_EQ(ranges.allocate(8, 24).error().code, Errc::invalid_argument);
}

TEST(FirstFit, NeighboursCoalesceWhicheverIsFreedFirst) {
  for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}}) {
    FirstFit ranges;
    ASSERT_TRUE(ranges.add(4096, 3 * 64));
    std::uint64_t block[3];
    for (auto& begin : block) begin = *ranges.allocate(64, 1);
    for (const int index : order) ASSERT_EQ(*ranges.deallocate(block[index]), 64u);
    EXPECT_EQ(*ranges.allocate(3 * 64, 1), 4096u);
  }
}

TEST(FirstFit, AdjacentRangesAddedSeparatelyServeOneBlock) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(8192, 4096));
  ASSERT_TRUE(ranges.add(4096, 4096));
  EXPECT_EQ(ranges.free_before(12288), 8192u);
  EXPECT_EQ(*ranges.allocate(8192, 4096), 4096u);
  EXPECT_EQ(ranges.free_before(12288), 0u);
}

TEST(FirstFit, NamesADoubleFreeAnInnerAddressAndAForeignOne) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(4096, 4096));
  const auto block = *ranges.allocate(128, 16);
  const auto where = [&](std::uint64_t begin) { return std::string{ranges.deallocate(begin).error().where}; };
  EXPECT_NE(where(block + 16).find("inside a block"), std::string::npos);
  EXPECT_NE(where(100).find("foreign"), std::string::npos);
  ASSERT_TRUE(ranges.deallocate(block));
  EXPECT_NE(where(block).find("freed twice"), std::string::npos);
  EXPECT_EQ(ranges.used(), 0u);
}

TEST(FirstFit, RefusesToManageTheSameBytesTwice) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(4096, 4096));
  ASSERT_TRUE(ranges.allocate(4096, 1));
  for (const auto& [begin, size] : {std::pair{4096u, 1u}, {0u, 4097u}, {8191u, 100u}, {0u, 100000u}}) {
    EXPECT_FALSE(ranges.add(begin, size)) << begin;
  }
  EXPECT_FALSE(ranges.add(1 << 20, 0));
  EXPECT_FALSE(ranges.add(UINT64_MAX - 10, 100));
  EXPECT_EQ(ranges.managed(), 4096u);
}

TEST(FirstFit, RemovesFreeMemoryFromTheMiddleAndRefusesUsedMemory) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(0, 4096));
  ASSERT_TRUE(ranges.remove(1024, 1024));
  EXPECT_EQ(ranges.managed(), 3072u);
  EXPECT_EQ(ranges.allocate(3072, 1).error().code, Errc::no_space);
  ASSERT_EQ(*ranges.allocate(1024, 1), 0u);
  EXPECT_EQ(ranges.remove(0, 512).error().code, Errc::busy);
  EXPECT_EQ(ranges.remove(1024, 512).error().code, Errc::invalid_argument);
  EXPECT_TRUE(ranges.remove(2048, 2048));
}

TEST(FirstFit, SizesNearTheLimitOfTheTypeAreRefusedAndDoNotWrap) {
  FirstFit ranges;
  ASSERT_TRUE(ranges.add(4096, 4096));
  for (const std::uint64_t size : {UINT64_MAX, UINT64_MAX - 15, UINT64_MAX - 4096}) {
    EXPECT_EQ(ranges.allocate(size, 4096).error().code, Errc::no_space);
  }
  EXPECT_TRUE(ranges.allocate(4096, 4096));
}

/// The model is a map of owners byte by byte (in units of the granule): slow, and obviously right.
class Model {
 public:
  explicit Model(std::size_t units) : owner_(units, 0) {}

  /// The first place where `units` free units begin at a multiple of `alignment` units, or -1.
  [[nodiscard]] std::int64_t first_fit(std::size_t units, std::size_t alignment) const {
    for (std::size_t begin = 0; begin + units <= owner_.size(); begin += alignment) {
      bool free = true;
      for (std::size_t i = begin; i < begin + units && free; ++i) free = owner_[i] == 0;
      if (free) return static_cast<std::int64_t>(begin);
    }
    return -1;
  }
  void set(std::size_t begin, std::size_t units, int owner) {
    for (std::size_t i = begin; i < begin + units; ++i) owner_[i] = owner;
  }

 private:
  std::vector<int> owner_;
};

TEST(FirstFit, AgreesWithAByteMapOverARandomTrace) {
  constexpr std::uint64_t kUnit = 64;
  constexpr std::size_t kUnits = 512;
  constexpr unsigned kSeed = 20240611;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  FirstFit ranges{kUnit};
  ASSERT_TRUE(ranges.add(0, kUnits * kUnit));
  Model model{kUnits};
  std::map<std::uint64_t, std::size_t> live;
  for (int step = 0; step < 100'000; ++step) {
    if (live.empty() || random() % 100 < 55) {
      const std::uint64_t size = random() % 20 == 0 ? random() % (kUnit * 100) : random() % (kUnit * 8);
      const std::uint64_t alignment = std::uint64_t{1} << (random() % 12);
      const std::size_t units = size == 0 ? 1 : (size + kUnit - 1) / kUnit;
      const auto expected = model.first_fit(units, alignment <= kUnit ? 1 : alignment / kUnit);
      const auto block = ranges.allocate(size, alignment);
      ASSERT_EQ(block.has_value(), expected >= 0) << "step " << step;
      if (!block) continue;
      ASSERT_EQ(*block, static_cast<std::uint64_t>(expected) * kUnit) << "step " << step;
      model.set(*block / kUnit, units, 1);
      live.emplace(*block, units);
    } else {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_EQ(*ranges.deallocate(victim->first), victim->second * kUnit) << "step " << step;
      model.set(victim->first / kUnit, victim->second, 0);
      live.erase(victim);
    }
    ASSERT_EQ(ranges.blocks(), live.size());
  }
  for (const auto& [begin, units] : live) ASSERT_TRUE(ranges.deallocate(begin));
  EXPECT_EQ(ranges.used(), 0u);
  EXPECT_TRUE(ranges.allocate(ranges.managed(), 1)) << "one free range";
}

TEST(FirstFit, ManyFreeRangesAreNotLookedAtOneByOne) {
  // 250 000 holes too small for what is asked: with a walk over them this would take hours.
  constexpr std::uint64_t kHoles = 250'000;
  FirstFit ranges{64};
  ASSERT_TRUE(ranges.add(0, kHoles * 256 + (std::uint64_t{1} << 32)));
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
  EXPECT_EQ(*ranges.allocate(128, 64), 0U) << "and the lowest that fits is still the one";
}

TEST(FirstFit, RangesComeAndGoOverARandomTraceAsInAByteMap) {
  constexpr unsigned kSeed = 99;
  constexpr std::uint64_t kEnd = 4096;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  FirstFit ranges{1};
  std::vector<char> model(kEnd, '-');  // '-' not managed, 'f' free, 'b' in a block
  std::map<std::uint64_t, std::uint64_t> live;
  const auto all = [&](std::uint64_t begin, std::uint64_t size, char what) {
    return std::all_of(model.begin() + static_cast<std::ptrdiff_t>(begin),
                       model.begin() + static_cast<std::ptrdiff_t>(begin + size), [&](char c) { return c == what; });
  };
  const auto set = [&](std::uint64_t begin, std::uint64_t size, char what) {
    std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(begin), size, what);
  };
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t begin = random() % kEnd;
    const std::uint64_t size = 1 + random() % std::min<std::uint64_t>(200, kEnd - begin);
    switch (random() % 4) {
      case 0:
        ASSERT_EQ(ranges.add(begin, size).has_value(), all(begin, size, '-')) << step;
        if (all(begin, size, '-')) set(begin, size, 'f');
        break;
      case 1:
        ASSERT_EQ(ranges.remove(begin, size).has_value(), all(begin, size, 'f')) << step;
        if (all(begin, size, 'f')) set(begin, size, '-');
        break;
      case 2:
        if (const auto block = ranges.allocate(size, 1); block) {
          ASSERT_TRUE(all(*block, size, 'f')) << step;
          set(*block, size, 'b');
          live.emplace(*block, size);
        }
        break;
      default:
        if (live.empty()) break;
        const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        ASSERT_EQ(*ranges.deallocate(victim->first), victim->second) << step;
        set(victim->first, victim->second, 'f');
        live.erase(victim);
    }
    ASSERT_EQ(ranges.managed(), kEnd - static_cast<std::uint64_t>(std::count(model.begin(), model.end(), '-')));
    ASSERT_EQ(ranges.used(), static_cast<std::uint64_t>(std::count(model.begin(), model.end(), 'b')));
  }
}

}  // namespace
}  // namespace opal::allocator
