// SPDX-License-Identifier: Apache-2.0
// What the proposals that this cache comes from say, one test per statement and policy: two overlapping registrations
// (0x1000-0x3fff and 0x2000-0x2fff), and leave_pinned {0, 1} x {unlimited, limited}.
#include <gtest/gtest.h>

#include <string>

#include "opal/rcache/cache.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

constexpr Access kRead = 1;

class EveryPolicy : public testing::TestWithParam<Overlap> {
 protected:
  [[nodiscard]] static Config config(bool leave_pinned, std::size_t pages_at_most) {
    return {.leave_pinned = leave_pinned, .size_limit = {pages_at_most * kPage}, .overlap = GetParam()};
  }
  static void touch(Cache& cache, std::uintptr_t address, std::size_t length = kPage) {
    ASSERT_TRUE(cache.get(at(address), length, kRead));
  }
  FakeDevice device_;
};

TEST_P(EveryPolicy, TheSmallerOfTwoRegistersNothingAndKeepsTheLargerAliveUntilItIsReleasedToo) {
  device_.capacity = 1;
  Cache cache{device_, config(true, 0), kPage};
  Lease large = *cache.get(at(0x1000), 0x3000, kRead);
  Lease small = *cache.get(at(0x2000), 0x1000, kRead);
  EXPECT_EQ(small.get(), large.get());
  EXPECT_EQ(device_.register_calls, 1u);

  large.reset();
  EXPECT_EQ(cache.statistics().idle.count, 0u) << "its pages 0x2000-0x2fff are in use";
  EXPECT_EQ(cache.get(at(0x10000), kPage, kRead).error().code, Errc::limit_reached);
  EXPECT_EQ(device_.table.size(), 1u);

  small.reset();
  EXPECT_EQ(cache.statistics().idle.bytes, 0x3000u) << "able to be undone";
  EXPECT_EQ(device_.table.size(), 1u) << "which is not undone";

  touch(cache, 0x10000);
  EXPECT_EQ(device_.deregistered.size(), 1u) << "only when the device has no room for another";
}

TEST_P(EveryPolicy, TheSmallerOneFirstIsCoveredByTheLarger) {
  Cache cache{device_, config(true, 0), kPage};
  const Lease small = *cache.get(at(0x2000), 0x1000, kRead);
  const Lease large = *cache.get(at(0x1000), 0x3000, kRead);
  EXPECT_EQ(device_.register_calls, 2u);
  EXPECT_TRUE(small->valid()) << "the holder of a lease may go on using it";
  EXPECT_TRUE(large->contains(0x1000, 0x4000));
}

TEST_P(EveryPolicy, Case1NotPinnedUnlimitedMemoryIsRegisteredAndUndoneForEachUse) {
  Cache cache{device_, config(false, 0), kPage};
  for (int i = 0; i < 5; ++i) touch(cache, 0x1000);
  EXPECT_EQ(device_.register_calls, 5u);
  EXPECT_TRUE(device_.table.empty());
}

TEST_P(EveryPolicy, Case2NotPinnedLimitedWhatIsInUseIsBounded) {
  Cache cache{device_, config(false, 2), kPage};
  Lease a = *cache.get(at(0x1000), kPage, kRead);
  const Lease b = *cache.get(at(0x3000), kPage, kRead);
  EXPECT_EQ(cache.get(at(0x5000), kPage, kRead).error().code, Errc::limit_reached);
  a.reset();
  EXPECT_TRUE(cache.get(at(0x5000), kPage, kRead));
}

TEST_P(EveryPolicy, Case3PinnedUnlimitedWhatWasRegisteredStays) {
  Cache cache{device_, config(true, 0), kPage};
  for (int twice = 0; twice < 2; ++twice) {
    for (std::uintptr_t i = 1; i <= 100; ++i) touch(cache, i * 2 * kPage);
  }
  EXPECT_EQ(device_.register_calls, 100u);
  EXPECT_EQ(cache.statistics().idle.count, 100u);
}

TEST_P(EveryPolicy, Case4PinnedLimitedTheOneUsedLongestAgoMakesRoom) {
  Cache cache{device_, config(true, 3), kPage};
  for (const std::uintptr_t address : {0x10000, 0x20000, 0x30000}) touch(cache, address);
  touch(cache, 0x10000);
  touch(cache, 0x40000);
  const auto calls = device_.register_calls;
  touch(cache, 0x10000);
  touch(cache, 0x30000);
  EXPECT_EQ(device_.register_calls, calls) << "0x20000 was the oldest";
  EXPECT_EQ(cache.statistics().evictions, 1u);
}

TEST_P(EveryPolicy, AGetWhoseBaseWasFreedAndAllocatedAgainLargerNeverGetsTheOldRegistration) {
  Cache cache{device_, config(true, 0), kPage};
  touch(cache, 0x10000, 0x8000);          // 32 KiB
  cache.invalidate(at(0x10000), 0x8000);  // free()
  const Lease lease = *cache.get(at(0x10000), 0x10000, kRead);
  EXPECT_TRUE(lease->contains(0x10000, 0x20000));
  EXPECT_EQ(device_.table.size(), 1u) << "the old one was undone before the new one was made";
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::Values(Overlap::containing, Overlap::page_refcount),
                         [](const auto& info) { return std::string{test::name(info.param)}; });

// Where the policies differ: [0x1000, 0x4000) and [0x3000, 0x6000).
class PartialOverlap : public testing::Test {
 protected:
  static constexpr std::size_t kLength = 0x3000;
  FakeDevice device_;
};

TEST_F(PartialOverlap, ContainingKeepsBothAndEachHasItsOwnUsers) {
  device_.capacity = 2;
  Cache cache{device_, {.overlap = Overlap::containing}, kPage};
  Lease low = *cache.get(at(0x1000), kLength, kRead);
  const Lease high = *cache.get(at(0x3000), kLength, kRead);
  low.reset();
  EXPECT_TRUE(cache.get(at(0x10000), kPage, kRead)) << "the lower one went";
}

TEST_F(PartialOverlap, PageRefcountKeepsARegistrationWhileAnyOfItsPagesIsInUseThroughAnother) {
  device_.capacity = 2;
  Cache cache{device_, {.overlap = Overlap::page_refcount}, kPage};
  Lease low = *cache.get(at(0x1000), kLength, kRead);
  Lease high = *cache.get(at(0x3000), kLength, kRead);
  low.reset();
  EXPECT_EQ(cache.get(at(0x10000), kPage, kRead).error().code, Errc::limit_reached) << "page 0x3000 is in use";
  const Lease end = *cache.get(at(0x4000), kPage, kRead);
  high.reset();
  EXPECT_TRUE(cache.get(at(0x10000), kPage, kRead)) << "no page of the lower one is";
  EXPECT_TRUE(end->valid());
}

}  // namespace
}  // namespace opal::rcache
