// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/registrations/interval_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace opal::rcache {
namespace {

using Entry = std::unique_ptr<Registration>;

Entry make(std::uintptr_t begin, std::size_t length, Access access, std::uint64_t id) {
  return std::make_unique<Registration>(begin, length, access, id * 2);
}

TEST(IntervalIndex, FindsTheOneThatReachesFarEnoughAmongNestedAndOverlappingOnes) {
  IntervalIndex index;
  const auto wide = make(0, 100, 1, 1);
  const auto narrow = make(10, 10, 1, 2);
  const auto right = make(50, 100, 1, 3);
  for (const auto* entry : {&wide, &narrow, &right}) index.insert(**entry);
  EXPECT_EQ(index.find_containing(15, 30, 1), wide.get()) << "the nearest begin, `narrow`, ends too early";
  EXPECT_EQ(index.find_containing(60, 120, 1), right.get());
  EXPECT_EQ(index.find_containing(40, 120, 1), nullptr) << "two together are not one";
  EXPECT_EQ(index.find_containing(150, 151, 1), nullptr);
  EXPECT_EQ(index.find_containing(15, 18, 2), nullptr);
  index.erase(*wide);
  EXPECT_EQ(index.find_containing(15, 30, 1), nullptr);
  EXPECT_EQ(index.find_containing(12, 20, 1), narrow.get());
}

TEST(IntervalIndex, EqualRangesAreKeptApart) {
  IntervalIndex index;
  const auto first = make(4096, 4096, 1, 1);
  const auto second = make(4096, 4096, 2, 2);
  const auto third = make(4096, 4096, 4, 3);
  for (const auto* entry : {&second, &third, &first}) index.insert(**entry);
  EXPECT_EQ(index.find_containing(4096, 8192, 4), third.get());
  index.erase(*second);
  EXPECT_EQ(index.find_containing(4096, 8192, 1), first.get());
  EXPECT_EQ(index.find_containing(4096, 8192, 2), nullptr);
  EXPECT_EQ(index.size(), 2u);
}

TEST(IntervalIndex, AgreesWithASearchOfAllEntriesOverARandomTrace) {
  constexpr unsigned kSeed = 314;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  IntervalIndex index;
  std::vector<Entry> entries;
  for (std::uint64_t step = 1; step <= 100'000; ++step) {
    const std::uintptr_t begin = random() % 1000;
    const std::size_t length = 1 + random() % (random() % 8 == 0 ? 500 : 30);
    const Access access = random() % 4;
    const auto kind = random() % 4;
    if (kind == 0 && entries.size() < 150) {
      entries.push_back(make(begin, length, access, step));
      index.insert(*entries.back());
    } else if (kind == 1 && !entries.empty()) {
      std::swap(entries[random() % entries.size()], entries.back());
      index.erase(*entries.back());
      entries.pop_back();
    } else if (kind == 2) {
      const bool expected = std::any_of(entries.begin(), entries.end(), [&](const Entry& e) {
        return e->contains(begin, begin + length) && e->allows(access);
      });
      const Registration* found = index.find_containing(begin, begin + length, access);
      ASSERT_EQ(found != nullptr, expected) << "step " << step;
      if (found != nullptr) {
        ASSERT_TRUE(found->contains(begin, begin + length) && found->allows(access)) << "step " << step;
      }
    } else {
      const bool expected = std::any_of(entries.begin(), entries.end(), [&](const Entry& e) {
        return e->begin() < begin + length && begin < e->end();
      });
      const auto any = [](const Registration& /*r*/) { return true; };
      const Registration* found = index.find_overlapping(begin, begin + length, any);
      ASSERT_EQ(found != nullptr, expected) << "step " << step;
      if (found != nullptr) {
        ASSERT_TRUE(found->begin() < begin + length && begin < found->end()) << "step " << step;
      }
    }
    ASSERT_EQ(index.size(), entries.size());
  }
  for (const auto& entry : entries) index.erase(*entry);
  EXPECT_EQ(index.any(), nullptr);
}

}  // namespace
}  // namespace opal::rcache
