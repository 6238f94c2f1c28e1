// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/grdma.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "opal/core/config_store.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

constexpr Access kRead = 1;
constexpr Access kWrite = 2;

class GrdmaTest : public testing::Test {
 protected:
  /// get() that must work.
  static Registration* must_get(Cache& cache, std::uintptr_t address, std::size_t length, Access access = kRead) {
    auto registration = cache.get(at(address), length, access);
    EXPECT_TRUE(registration) << to_string(registration.error());
    return *registration;
  }
  static void touch(Cache& cache, std::uintptr_t address, std::size_t length = kPage, Access access = kRead) {
    cache.put(must_get(cache, address, length, access));
  }
  FakeDevice device_;
};

// Seed 003: 0x1000-0x3fff is registered, then 0x2000-0x2fff.
TEST_F(GrdmaTest, ARangeInsideARegistrationIsServedByItAndKeepsItAliveAfterTheOuterOneIsReleased) {
  device_.capacity = 1;
  Grdma cache{device_};
  Registration* const outer = must_get(cache, 0x1000, 0x3000);
  Registration* const inner = must_get(cache, 0x2000, 0x1000);
  EXPECT_EQ(inner, outer) << "nothing new is registered";
  EXPECT_EQ(device_.register_calls, 1u);

  cache.put(outer);
  EXPECT_EQ(device_.table.size(), 1u) << "the pages of the inner range are still in use";
  EXPECT_EQ(cache.statistics().idle.count, 0u);
  EXPECT_EQ(cache.get(at(0x10000), kPage, kRead).error().code, Errc::limit_reached) << "nothing may be undone yet";

  cache.put(inner);
  EXPECT_EQ(device_.table.size(), 1u) << "able to be undone is not undone";
  EXPECT_EQ(cache.statistics().idle.bytes, 0x3000u);

  touch(cache, 0x10000);  // the device is full: only now the old one goes, and the new one is tried again
  EXPECT_EQ(device_.deregistered.size(), 1u);
  EXPECT_EQ(cache.statistics().evictions, 1u);
}

TEST_F(GrdmaTest, RangesAreRoundedToPages) {
  Grdma cache{device_, {}, kPage};
  const Lease lease = *cache.lease(at(0x1ffe), 4, kRead);
  EXPECT_EQ(lease->begin(), 0x1000u);
  EXPECT_EQ(lease->end(), 0x3000u);
  EXPECT_EQ(lease->base(), reinterpret_cast<std::byte*>(0x1000));
  EXPECT_EQ(lease->length(), 0x2000u);
  EXPECT_EQ(must_get(cache, 0x1000, 1), lease.get());
  cache.put(lease.get());
}

TEST_F(GrdmaTest, GranularityOneRoundsNothing) {
  Grdma cache{device_, {}, 1};
  const Lease lease = *cache.lease(at(0x1234), 5, kRead);
  EXPECT_EQ(lease->begin(), 0x1234u);
  EXPECT_EQ(lease->length(), 5u);
}

TEST_F(GrdmaTest, EmptyAndWrappingRangesAreRefused) {
  Grdma cache{device_};
  EXPECT_EQ(cache.get(at(0x1000), 0, kRead).error().code, Errc::invalid_argument);
  EXPECT_EQ(cache.get(at(0x1000), SIZE_MAX, kRead).error().code, Errc::invalid_argument);
  EXPECT_EQ(cache.get(at(UINTPTR_MAX - 10), 5, kRead).error().code, Errc::invalid_argument);
  EXPECT_EQ(device_.register_calls, 0u);
  EXPECT_EQ(cache.statistics().failures, 3u);
}

TEST_F(GrdmaTest, OverlappingRegistrationsCoexist) {
  Grdma cache{device_};
  const Lease low = *cache.lease(at(0x1000), 0x3000, kRead);
  const Lease high = *cache.lease(at(0x3000), 0x3000, kRead);
  EXPECT_NE(low.get(), high.get());
  const Lease all = *cache.lease(at(0x1000), 0x5000, kRead);
  EXPECT_EQ(device_.table.size(), 3u);
  EXPECT_TRUE(low->valid() && high->valid() && all->valid());
}

TEST_F(GrdmaTest, ARegistrationWithMoreRightsServesFewer) {
  Grdma cache{device_};
  const Lease both = *cache.lease(at(0x1000), kPage, kRead | kWrite);
  touch(cache, 0x1000, kPage, kRead);
  touch(cache, 0x1000, kPage, kWrite);
  EXPECT_EQ(device_.register_calls, 1u);
}

TEST_F(GrdmaTest, MissingRightsMakeANewRegistrationWithTheUnionThatReplacesTheIdleOne) {
  Grdma cache{device_};
  touch(cache, 0x1000, 0x4000, kRead);
  const Lease lease = *cache.lease(at(0x2000), 0x1000, kWrite);
  EXPECT_EQ(lease->access(), kRead | kWrite);
  EXPECT_EQ(lease->begin(), 0x1000u) << "users of the whole old range hit the new one";
  EXPECT_EQ(lease->length(), 0x4000u);
  EXPECT_EQ(device_.table.size(), 1u) << "the old one has no use left";
  touch(cache, 0x1000, 0x4000, kRead);
  EXPECT_EQ(device_.register_calls, 2u);
}

TEST_F(GrdmaTest, MissingRightsLeaveARegistrationInUseAlone) {
  Grdma cache{device_};
  const Lease old = *cache.lease(at(0x1000), 0x4000, kRead);
  const Lease fresh = *cache.lease(at(0x1000), 0x4000, kWrite);
  EXPECT_TRUE(old->valid());
  EXPECT_EQ(device_.table.size(), 2u);
}

TEST_F(GrdmaTest, WhenTheUnionCannotBeRegisteredTheRequestAloneIs) {
  Grdma cache{device_};
  constexpr Access kExecute = 4;
  const Lease old = *cache.lease(at(0x1000), 0x4000, kExecute);
  device_.forbidden = kExecute;  // by now nothing may be registered with that right
  const Lease lease = *cache.lease(at(0x2000), 0x1000, kWrite);
  EXPECT_EQ(lease->access(), kWrite);
  EXPECT_EQ(lease->length(), 0x1000u);
}

TEST_F(GrdmaTest, EvictsTheLeastRecentlyUsedFirst) {
  device_.capacity = 3;
  Grdma cache{device_};
  std::vector<std::uint64_t> keys;
  for (const std::uintptr_t address : {0x10000, 0x20000, 0x30000}) {
    const Lease lease = *cache.lease(at(address), kPage, kRead);
    keys.push_back(FakeDevice::key_of(*lease));
  }
  touch(cache, 0x10000);  // now 0x20000 is the oldest
  touch(cache, 0x40000);
  touch(cache, 0x50000);
  EXPECT_EQ(device_.deregistered, (std::vector<std::uint64_t>{keys[1], keys[2]}));
  EXPECT_EQ(device_.register_calls, 7u) << "each eviction was followed by one retry";
}

TEST_F(GrdmaTest, RetriesForEveryErrorThatMeansNoRoomAndForNoOther) {
  for (const Errc code : {Errc::no_memory, Errc::no_space, Errc::limit_reached}) {
    FakeDevice device;
    device.capacity = 1;
    device.when_full = code;
    Grdma cache{device};
    touch(cache, 0x1000);
    touch(cache, 0x2000);
    EXPECT_EQ(cache.statistics().evictions, 1u) << name(code);
  }
  device_.forbidden = kWrite;
  Grdma cache{device_};
  touch(cache, 0x1000, kPage, kRead);
  const auto refused = cache.get(at(0x8000), kPage, kWrite);
  EXPECT_EQ(refused.error().code, Errc::permission) << "the device's own word reaches the user";
  EXPECT_EQ(cache.statistics().evictions, 0u);
  EXPECT_EQ(cache.statistics().registered.count, 1u);
}

TEST_F(GrdmaTest, LimitReachedIsClearWhenNothingIsIdle) {
  device_.capacity = 2;
  Grdma cache{device_};
  const Lease a = *cache.lease(at(0x1000), kPage, kRead);
  Lease b = *cache.lease(at(0x3000), kPage, kRead);
  const auto full = cache.get(at(0x5000), kPage, kRead);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::limit_reached);
  EXPECT_EQ(full.error().os_errno, 12);
  EXPECT_EQ(cache.statistics().registered.count, 2u) << "the failed one is not counted";
  b.reset();
  EXPECT_TRUE(cache.lease(at(0x5000), kPage, kRead));
}

// Seed 000: leave_pinned {0, 1} x {unlimited, limited}.
TEST_F(GrdmaTest, Case1WithoutLeavePinnedMemoryIsRegisteredAndUndoneForEachUse) {
  Grdma cache{device_, {.leave_pinned = false}};
  for (int i = 0; i < 5; ++i) touch(cache, 0x1000);
  EXPECT_EQ(device_.register_calls, 5u);
  EXPECT_TRUE(device_.table.empty());
  EXPECT_EQ(cache.statistics().idle.count, 0u);
}

TEST_F(GrdmaTest, Case2WithoutLeavePinnedTheLimitBoundsWhatIsInUse) {
  Grdma cache{device_, {.leave_pinned = false, .size_limit = {2 * kPage}}};
  Lease a = *cache.lease(at(0x1000), kPage, kRead);
  const Lease b = *cache.lease(at(0x3000), kPage, kRead);
  EXPECT_EQ(cache.get(at(0x5000), kPage, kRead).error().code, Errc::limit_reached);
  EXPECT_EQ(device_.register_calls, 2u) << "our own limit is checked before the device is asked";
  a.reset();
  EXPECT_TRUE(cache.lease(at(0x5000), kPage, kRead));
}

TEST_F(GrdmaTest, Case3WithLeavePinnedEverythingStays) {
  Grdma cache{device_};
  for (std::uintptr_t i = 0; i < 1000; ++i) touch(cache, 0x100000 + i * kPage);
  for (std::uintptr_t i = 0; i < 1000; ++i) touch(cache, 0x100000 + i * kPage);
  EXPECT_EQ(device_.register_calls, 1000u);
  EXPECT_EQ(cache.statistics().hits, 1000u);
  EXPECT_EQ(cache.statistics().idle.count, 1000u);
  cache.flush();
  EXPECT_TRUE(device_.table.empty());
}

TEST_F(GrdmaTest, Case4WithLeavePinnedAndALimitTheOldestMakeRoom) {
  Grdma cache{device_, {.size_limit = {4 * kPage}}};
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

TEST_F(GrdmaTest, TheCountLimitHoldsToo) {
  Grdma cache{device_, {.count_limit = 2}};
  for (std::uintptr_t i = 1; i <= 10; ++i) touch(cache, i * 0x10000);
  EXPECT_EQ(device_.most, 2u);
}

TEST_F(GrdmaTest, InvalidatedIdleMemoryIsNotServedAgainAndIsUndoneAtTheNextRegistration) {
  Grdma cache{device_};
  touch(cache, 0x1000, 0x3000);
  touch(cache, 0x8000);
  EXPECT_EQ(cache.invalidate(at(0x2800), 16), 1u);
  EXPECT_EQ(device_.refused.size(), 1u) << "the device refuses peers' handles from now on";
  EXPECT_TRUE(device_.deregistered.empty()) << "not inside the event";
  EXPECT_EQ(cache.statistics().idle.count, 1u);

  touch(cache, 0x8000);
  EXPECT_TRUE(device_.deregistered.empty()) << "a hit has no time for it";
  touch(cache, 0x1000, 0x3000);
  EXPECT_EQ(device_.deregistered.size(), 1u);
  EXPECT_EQ(device_.register_calls, 3u);
  EXPECT_EQ(cache.statistics().invalidations, 1u);
}

TEST_F(GrdmaTest, InvalidatedMemoryInUseChangesItsGenerationAndIsUndoneByItsLastUser) {
  Grdma cache{device_};
  Registration* const first = must_get(cache, 0x1000, kPage);
  Registration* const second = must_get(cache, 0x1000, kPage);
  ASSERT_EQ(first, second);
  const auto generation = first->generation();
  EXPECT_EQ(cache.invalidate(at(0x1000), 1), 1u);
  EXPECT_FALSE(first->valid());
  EXPECT_NE(first->generation(), generation) << "a handle with the old number no longer matches";

  const Lease fresh = *cache.lease(at(0x1000), kPage, kRead);
  EXPECT_NE(fresh.get(), first);
  EXPECT_NE(fresh->generation(), generation);
  cache.put(first);
  EXPECT_EQ(device_.table.size(), 2u);
  cache.put(second);
  EXPECT_EQ(device_.table.size(), 1u);
}

TEST_F(GrdmaTest, InvalidationTakesEveryOverlappingRegistrationAndNoNeighbour) {
  Grdma cache{device_};
  touch(cache, 0x1000, 0x3000);
  touch(cache, 0x3000, 0x3000);
  const Lease below = *cache.lease(at(0x0ff0), 16, kRead);
  const Lease above = *cache.lease(at(0x7000), 16, kRead);
  EXPECT_EQ(cache.invalidate(at(0x3000), 0x1000), 2u);
  EXPECT_TRUE(below->valid() && above->valid());
  EXPECT_EQ(cache.invalidate(at(0x3000), 0x1000), 0u);
  EXPECT_EQ(cache.invalidate(at(0x3000), 0), 0u);
  EXPECT_EQ(cache.invalidate(at(0), SIZE_MAX), 2u);
}

TEST_F(GrdmaTest, MemoryUnmappedWhileItIsBeingRegisteredIsRegisteredAgain) {
  Grdma cache{device_};
  int events = 1;
  device_.during_register = [&](const Registration& registration) {
    // As when the device's own malloc unmaps something: the event arrives on the thread that is inside get().
    if (events-- > 0) {
      EXPECT_EQ(cache.invalidate(registration.base(), 1), 1u);
    }
  };
  const Lease lease = *cache.lease(at(0x1000), kPage, kRead);
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(device_.register_calls, 2u);
  EXPECT_EQ(device_.deregistered.size(), 1u);
  events = 1000;
  EXPECT_EQ(cache.get(at(0x10000), kPage, kRead).error().code, Errc::invalid_argument) << "not for ever";
}

TEST_F(GrdmaTest, DeadRegistrationsMakeRoomBeforeIdleOnesAreEvicted) {
  device_.capacity = 2;
  Grdma cache{device_};
  touch(cache, 0x1000);
  touch(cache, 0x3000);
  cache.invalidate(at(0x3000), 1);
  touch(cache, 0x5000);
  EXPECT_EQ(cache.statistics().evictions, 0u);
  touch(cache, 0x1000);
  EXPECT_EQ(cache.statistics().hits, 1u);
}

TEST_F(GrdmaTest, EverythingIsUndoneAtTheEndOfTheCache) {
  {
    Grdma cache{device_};
    touch(cache, 0x1000);
    touch(cache, 0x3000);
    cache.invalidate(at(0x3000), 1);
  }
  EXPECT_TRUE(device_.table.empty());
}

TEST_F(GrdmaTest, LeasesMoveAndGiveBackOnce) {
  Grdma cache{device_};
  Lease outer;
  {
    Lease inner = *cache.lease(at(0x1000), kPage, kRead);
    outer = std::move(inner);
    EXPECT_FALSE(inner);  // NOLINT(bugprone-use-after-move): a moved-from lease is empty
  }
  EXPECT_EQ(cache.statistics().idle.count, 0u);
  outer = *cache.lease(at(0x9000), kPage, kRead);
  EXPECT_EQ(cache.statistics().idle.count, 1u);
  Registration* const kept = outer.release();
  outer.reset();
  EXPECT_EQ(cache.statistics().idle.count, 1u);
  cache.put(kept);
  EXPECT_EQ(cache.statistics().idle.count, 2u);
}

TEST_F(GrdmaTest, CountsHitsMissesAndTime) {
  Grdma cache{device_};
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

TEST(FirstChunk, PiecesEndAtMultiplesOfTheChunk) {
  constexpr std::size_t kChunk = 2 << 20;
  std::uintptr_t address = 0x7f0000100123;
  std::size_t left = (9 << 20) + 77;
  std::vector<std::size_t> pieces;
  while (left > 0) {
    pieces.push_back(first_chunk(address, left, kChunk));
    address += pieces.back();
    left -= pieces.back();
    if (left > 0) {
      EXPECT_EQ(address % kChunk, 0u);
    }
  }
  ASSERT_EQ(pieces.size(), 6u) << "a head up to the first multiple, four whole ones, a tail";
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(pieces[i], kChunk);
  EXPECT_EQ(first_chunk(123, 456, 0), 456u);
}

TEST(GrdmaConfig, VariablesReachTheCache) {
  config::Store store;
  store.set("rcache_grdma_leave_pinned", "no");
  store.set("rcache_grdma_size_limit", "64M");
  store.set("rcache_grdma_max_chunk", "1M");
  const auto config = store.load(kGrdmaGroup);
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_FALSE(config->leave_pinned);
  EXPECT_EQ(config->size_limit, 64_MiB);
  EXPECT_EQ(config->max_chunk, 1_MiB);
  EXPECT_EQ(config->count_limit, 0u);
  store.set("rcache_grdma_max_chunk", "3M");
  EXPECT_FALSE(store.load(kGrdmaGroup)) << "not a power of two";
}

}  // namespace
}  // namespace opal::rcache
