// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/cache.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "opal/core/config/store.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

constexpr Access kRead = 1;
constexpr Access kWrite = 2;

class CacheTest : public testing::Test {
 protected:
  /// get() that must work.
  static Lease must_get(Cache& cache, std::uintptr_t address, std::size_t length, Access access = kRead) {
    auto lease = cache.get(at(address), length, access);
    EXPECT_TRUE(lease) << to_string(lease.error());
    return std::move(*lease);
  }
  static void touch(Cache& cache, std::uintptr_t address, std::size_t length = kPage, Access access = kRead) {
    must_get(cache, address, length, access).reset();
  }
  FakeDevice device_;
};

TEST_F(CacheTest, RangesAreRoundedToPages) {
  Cache cache{device_, {}, kPage};
  const Lease lease = *cache.get(at(0x1ffe), 4, kRead);
  EXPECT_EQ(lease->begin(), 0x1000u);
  EXPECT_EQ(lease->end(), 0x3000u);
  EXPECT_EQ(lease->base(), reinterpret_cast<std::byte*>(0x1000));
  EXPECT_EQ(lease->length(), 0x2000u);
  EXPECT_EQ(must_get(cache, 0x1000, 1).get(), lease.get());
}

TEST_F(CacheTest, GranularityOneRoundsNothing) {
  Cache cache{device_, {}, 1};
  const Lease lease = *cache.get(at(0x1234), 5, kRead);
  EXPECT_EQ(lease->begin(), 0x1234u);
  EXPECT_EQ(lease->length(), 5u);
}

TEST_F(CacheTest, EmptyAndWrappingRangesAreRefused) {
  Cache cache{device_};
  EXPECT_EQ(cache.get(at(0x1000), 0, kRead).error().code, Errc::invalid_argument);
  EXPECT_EQ(cache.get(at(0x1000), SIZE_MAX, kRead).error().code, Errc::invalid_argument);
  EXPECT_EQ(cache.get(at(UINTPTR_MAX - 10), 5, kRead).error().code, Errc::invalid_argument);
  EXPECT_EQ(device_.register_calls, 0u);
  EXPECT_EQ(cache.statistics().failures, 3u);
}

TEST_F(CacheTest, OverlappingRegistrationsCoexist) {
  Cache cache{device_};
  const Lease low = *cache.get(at(0x1000), 0x3000, kRead);
  const Lease high = *cache.get(at(0x3000), 0x3000, kRead);
  EXPECT_NE(low.get(), high.get());
  const Lease all = *cache.get(at(0x1000), 0x5000, kRead);
  EXPECT_EQ(device_.table.size(), 3u);
  EXPECT_TRUE(low->valid() && high->valid() && all->valid());
}

TEST_F(CacheTest, ARegistrationWithMoreRightsServesFewer) {
  Cache cache{device_};
  const Lease both = *cache.get(at(0x1000), kPage, kRead | kWrite);
  touch(cache, 0x1000, kPage, kRead);
  touch(cache, 0x1000, kPage, kWrite);
  EXPECT_EQ(device_.register_calls, 1u);
}

TEST_F(CacheTest, MissingRightsMakeANewRegistrationOfTheRequestAlone) {
  Cache cache{device_};
  const Lease old = *cache.get(at(0x1000), 0x4000, kRead);
  const Lease fresh = *cache.get(at(0x2000), 0x1000, kWrite);
  EXPECT_TRUE(old->valid());
  EXPECT_EQ(fresh->access(), kWrite);
  EXPECT_EQ(fresh->length(), 0x1000u);
  EXPECT_EQ(device_.table.size(), 2u);
}

TEST_F(CacheTest, EvictsTheLeastRecentlyUsedFirst) {
  device_.capacity = 3;
  Cache cache{device_};
  std::vector<std::uint64_t> keys;
  for (const std::uintptr_t address : {0x10000, 0x20000, 0x30000}) {
    const Lease lease = *cache.get(at(address), kPage, kRead);
    keys.push_back(FakeDevice::key_of(*lease));
  }
  touch(cache, 0x10000);  // now 0x20000 is the oldest
  touch(cache, 0x40000);
  touch(cache, 0x50000);
  EXPECT_EQ(device_.deregistered, (std::vector<std::uint64_t>{keys[1], keys[2]}));
  EXPECT_EQ(device_.register_calls, 7u) << "each eviction was followed by one retry";
}

TEST_F(CacheTest, RetriesForEveryErrorThatMeansNoRoomAndForNoOther) {
  for (const Errc code : {Errc::no_memory, Errc::no_space, Errc::limit_reached}) {
    FakeDevice device;
    device.capacity = 1;
    device.when_full = code;
    Cache cache{device};
    touch(cache, 0x1000);
    touch(cache, 0x2000);
    EXPECT_EQ(cache.statistics().evictions, 1u) << name(code);
  }
  device_.forbidden = kWrite;
  Cache cache{device_};
  touch(cache, 0x1000, kPage, kRead);
  const auto refused = cache.get(at(0x8000), kPage, kWrite);
  EXPECT_EQ(refused.error().code, Errc::permission) << "the device's own word reaches the user";
  EXPECT_EQ(cache.statistics().evictions, 0u);
  EXPECT_EQ(cache.statistics().registered.count, 1u);
}

TEST_F(CacheTest, LimitReachedIsClearWhenNothingIsIdle) {
  device_.capacity = 2;
  Cache cache{device_};
  const Lease a = *cache.get(at(0x1000), kPage, kRead);
  Lease b = *cache.get(at(0x3000), kPage, kRead);
  const auto full = cache.get(at(0x5000), kPage, kRead);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::limit_reached);
  EXPECT_EQ(full.error().os_errno, 12);
  EXPECT_EQ(cache.statistics().registered.count, 2u) << "the failed one is not counted";
  b.reset();
  EXPECT_TRUE(cache.get(at(0x5000), kPage, kRead));
}

TEST_F(CacheTest, AsManyOfTheOldestGoAsTheLimitInBytesTakesAndNoneForWhatCanNeverFit) {
  Cache cache{device_, {.size_limit = {4 * kPage}}};
  for (std::uintptr_t i = 0; i < 4; ++i) touch(cache, 0x10000 * (i + 1));
  touch(cache, 0x90000, 3 * kPage);
  EXPECT_EQ(cache.statistics().evictions, 3u);
  EXPECT_EQ(cache.statistics().registered.bytes, 4 * kPage);
  const auto before = device_.register_calls;
  touch(cache, 0x40000);
  EXPECT_EQ(device_.register_calls, before) << "the most recent of the old ones survived";
  EXPECT_EQ(cache.get(at(0x1000), 5 * kPage, kRead).error().code, Errc::limit_reached);
  EXPECT_EQ(cache.statistics().evictions, 3u) << "what can never fit evicts nothing";
}

TEST_F(CacheTest, TheCountLimitHoldsToo) {
  Cache cache{device_, {.count_limit = 2}};
  for (std::uintptr_t i = 1; i <= 10; ++i) touch(cache, i * 0x10000);
  EXPECT_EQ(device_.most, 2u);
}

TEST_F(CacheTest, InvalidatedIdleMemoryIsNotServedAgainAndIsUndoneAtTheNextRegistration) {
  Cache cache{device_};
  touch(cache, 0x1000, 0x3000);
  touch(cache, 0x8000);
  EXPECT_EQ(cache.invalidate(at(0x2800), 16), 1u);
  EXPECT_EQ(device_.refused_parts.size(), 1u) << "the device refuses peers that part from now on";
  EXPECT_TRUE(device_.deregistered.empty()) << "not inside the event";
  EXPECT_EQ(cache.statistics().idle.count, 1u);

  touch(cache, 0x8000);
  EXPECT_TRUE(device_.deregistered.empty()) << "a hit has no time for it";
  touch(cache, 0x1000, 0x3000);
  EXPECT_EQ(device_.deregistered.size(), 1u);
  EXPECT_EQ(device_.register_calls, 3u);
  EXPECT_EQ(cache.statistics().invalidations, 1u);
}

TEST_F(CacheTest, InvalidatedMemoryInUseChangesItsGenerationAndIsUndoneByItsLastUser) {
  Cache cache{device_};
  Lease first = must_get(cache, 0x1000, kPage);
  Lease second = must_get(cache, 0x1000, kPage);
  ASSERT_EQ(first.get(), second.get());
  const auto generation = first->generation();
  EXPECT_EQ(cache.invalidate(at(0x1000), 1), 1u);
  EXPECT_FALSE(first->valid());
  EXPECT_NE(first->generation(), generation) << "a handle with the old number no longer matches";

  const Lease fresh = *cache.get(at(0x1000), kPage, kRead);
  EXPECT_NE(fresh.get(), first.get());
  EXPECT_NE(fresh->generation(), generation);
  first.reset();
  EXPECT_EQ(device_.table.size(), 2u);
  second.reset();
  EXPECT_EQ(device_.table.size(), 1u);
}

TEST_F(CacheTest, InvalidationTakesEveryOverlappingRegistrationAndNoNeighbour) {
  Cache cache{device_};
  touch(cache, 0x1000, 0x3000);
  touch(cache, 0x3000, 0x3000);
  const Lease below = *cache.get(at(0x0ff0), 16, kRead);
  const Lease above = *cache.get(at(0x7000), 16, kRead);
  EXPECT_EQ(cache.invalidate(at(0x3000), 0x1000), 2u);
  EXPECT_TRUE(below->valid() && above->valid());
  EXPECT_EQ(cache.invalidate(at(0x3000), 0x1000), 0u);
  EXPECT_EQ(cache.invalidate(at(0x3000), 0), 0u);
  EXPECT_EQ(cache.invalidate(at(0), SIZE_MAX), 2u);
}

TEST_F(CacheTest, MemoryUnmappedWhileItIsBeingRegisteredIsRegisteredAgain) {
  Cache cache{device_};
  int events = 1;
  device_.during_register = [&](const Registration& registration) {
    // As when the device's own malloc unmaps something: the event arrives on the thread that is inside get().
    if (events-- > 0) {
      EXPECT_EQ(cache.invalidate(registration.base(), 1), 1u);
    }
  };
  const Lease lease = *cache.get(at(0x1000), kPage, kRead);
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(device_.register_calls, 2u);
  EXPECT_EQ(device_.deregistered.size(), 1u);
  events = 1000;
  EXPECT_EQ(cache.get(at(0x10000), kPage, kRead).error().code, Errc::invalid_argument) << "not for ever";
}

TEST_F(CacheTest, DeadRegistrationsMakeRoomBeforeIdleOnesAreEvicted) {
  device_.capacity = 2;
  Cache cache{device_};
  touch(cache, 0x1000);
  touch(cache, 0x3000);
  cache.invalidate(at(0x3000), 1);
  touch(cache, 0x5000);
  EXPECT_EQ(cache.statistics().evictions, 0u);
  touch(cache, 0x1000);
  EXPECT_EQ(cache.statistics().hits, 1u);
}

TEST_F(CacheTest, EverythingIsUndoneAtTheEndOfTheCache) {
  {
    Cache cache{device_};
    touch(cache, 0x1000);
    touch(cache, 0x3000);
    cache.invalidate(at(0x3000), 1);
  }
  EXPECT_TRUE(device_.table.empty());
}

TEST_F(CacheTest, LeasesMoveAndGiveBackOnce) {
  Cache cache{device_};
  Lease outer;
  {
    Lease inner = *cache.get(at(0x1000), kPage, kRead);
    outer = std::move(inner);
    EXPECT_FALSE(inner);  // NOLINT(bugprone-use-after-move): a moved-from lease is empty
  }
  EXPECT_EQ(cache.statistics().idle.count, 0u);
  outer = *cache.get(at(0x9000), kPage, kRead);
  EXPECT_EQ(cache.statistics().idle.count, 1u);
  outer.reset();
  outer.reset();
  EXPECT_EQ(cache.statistics().idle.count, 2u);
}

TEST_F(CacheTest, CountsHitsMissesAndTime) {
  Cache cache{device_};
  touch(cache, 0x1000);
  touch(cache, 0x1000);
  touch(cache, 0x1000, 2 * kPage);
  const Statistics seen = cache.statistics();
  EXPECT_EQ(seen.hits, 1u);
  EXPECT_EQ(seen.misses, 2u);
  EXPECT_EQ(seen.registered.count, 2u);
  EXPECT_EQ(seen.registered.bytes, 3 * kPage);
  EXPECT_EQ(seen.idle.bytes, 3 * kPage);
}

TEST(CacheStatistics, OfThousandsTellTheIdleFromTheUsedTheInvalidAndTheUndone) {
  constexpr std::uintptr_t kRegions = 5'000;
  FakeDevice device;
  Cache cache{device, {}, kPage};
  const auto region = [](std::uintptr_t i) { return at(kPage * (1 + 2 * i)); };
  std::vector<Lease> used;
  for (std::uintptr_t i = 0; i < kRegions; ++i) {
    Lease lease = *cache.get(region(i), kPage, 1);
    if (i % 10 == 0) used.push_back(std::move(lease));
  }
  for (std::uintptr_t i = 0; i < kRegions; i += 5) cache.invalidate(region(i), kPage);  // all used ones, and as many
  const Statistics seen = cache.statistics();
  EXPECT_EQ(seen.invalidations, kRegions / 5);
  EXPECT_EQ(seen.registered.count, kRegions);
  EXPECT_EQ(seen.idle.count, kRegions - kRegions / 5);
  EXPECT_EQ(seen.idle.bytes, seen.idle.count * kPage);
  used.clear();
  cache.flush();
  EXPECT_EQ(cache.statistics().idle.count, 0U);
}

TEST(Config, VariablesReachTheCache) {
  config::Store store;
  store.set("rcache_grdma_leave_pinned", "no");
  store.set("rcache_grdma_size_limit", "64M");
  store.set("rcache_grdma_max_chunk", "1M");
  const auto config = store.load(kGroup);
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_FALSE(config->leave_pinned);
  EXPECT_EQ(config->size_limit, 64_MiB);
  EXPECT_EQ(config->max_chunk, 1_MiB);
  EXPECT_EQ(config->count_limit, 0u);
  store.set("rcache_grdma_max_chunk", "3M");
  EXPECT_FALSE(store.load(kGroup)) << "not a power of two";
}

}  // namespace
}  // namespace opal::rcache
