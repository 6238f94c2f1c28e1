// SPDX-License-Identifier: Apache-2.0
// A checkpoint of a cache without a transport: quiesce, checkpoint, resume, with every policy.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "opal/rcache/cache.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

class CacheCheckpoint : public testing::TestWithParam<Overlap> {
 protected:
  FakeDevice device_;
  Cache cache_{device_, {.overlap = GetParam()}, kPage};
};
INSTANTIATE_TEST_SUITE_P(Policies, CacheCheckpoint, testing::Values(Overlap::containing, Overlap::page_refcount),
                         [](const auto& info) { return std::string{test::name(info.param)}; });

TEST_P(CacheCheckpoint, WhatIsIdleGoesAtOnceAndWhatIsInUseWithItsLastLease) {
  for (std::uintptr_t i = 1; i <= 100; ++i) ASSERT_TRUE(cache_.get(at(2 * i * kPage), kPage, 1));
  Lease first = *cache_.get(at(2 * kPage), kPage, 1);
  Lease second = *cache_.get(at(2 * kPage), kPage, 1);
  EXPECT_EQ(cache_.checkpoint().error().code, Errc::busy) << "not quiesced";
  cache_.quiesce();
  EXPECT_EQ(device_.table.size(), 1U);
  EXPECT_TRUE(first->valid()) << "its holder may go on using it";
  EXPECT_EQ(cache_.checkpoint().error().detail, 1U);
  first.reset();
  EXPECT_EQ(cache_.checkpoint().error().code, Errc::busy);
  second.reset();
  EXPECT_TRUE(device_.table.empty());
  EXPECT_TRUE(cache_.checkpoint());
}

TEST_P(CacheCheckpoint, NothingIsServedUntilItResumes) {
  ASSERT_TRUE(cache_.get(at(2 * kPage), kPage, 1));
  cache_.quiesce();
  EXPECT_EQ(cache_.get(at(2 * kPage), kPage, 1).error().code, Errc::busy);
  EXPECT_FALSE(cache_.find(at(2 * kPage), kPage, 1));
  EXPECT_EQ(device_.register_calls, 1U);
  cache_.resume();
  EXPECT_TRUE(cache_.get(at(2 * kPage), kPage, 1));
  EXPECT_EQ(device_.register_calls, 2U);
  EXPECT_EQ(cache_.statistics().idle.count, 1U) << "and is kept again";
}

TEST_P(CacheCheckpoint, ARegistrationUnderWayMeanwhileIsNotKept) {
  device_.during_register = [&](const Registration&) { cache_.quiesce(); };
  {
    const auto lease = cache_.get(at(2 * kPage), kPage, 1);
    ASSERT_TRUE(lease);
    EXPECT_EQ(cache_.checkpoint().error().detail, 1U);
  }
  EXPECT_TRUE(cache_.checkpoint());
  EXPECT_TRUE(device_.table.empty());
}

TEST_P(CacheCheckpoint, ThreadsThatGoOnAskingSeeItEmptyEachTime) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> served{0};
  const auto ask = [&](std::uintptr_t seed) {
    for (std::uintptr_t i = seed; !stop; ++i) {
      const auto lease = cache_.get(at((2 + 2 * (i * 7 % 50)) * kPage), kPage, 1);
      if (lease) {
        ++served;
      } else {
        EXPECT_EQ(lease.error().code, Errc::busy);
      }
    }
  };
  {
    std::jthread one{ask, 1};
    std::jthread two{ask, 2};
    for (int round = 0; round < 100; ++round) {
      const std::uint64_t before = served;
      while (served == before) std::this_thread::yield();
      cache_.quiesce();
      while (!cache_.checkpoint()) std::this_thread::yield();
      EXPECT_EQ(cache_.statistics().registered.count, 0U);
      cache_.resume();
    }
    stop = true;
  }
  EXPECT_EQ(device_.table.size(), cache_.statistics().registered.count);
}

}  // namespace
}  // namespace opal::rcache
