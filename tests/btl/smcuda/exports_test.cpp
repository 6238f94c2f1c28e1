// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/smcuda/exports.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace opal::btl::smcuda {
namespace {

gpu::MemoryHandle allocation(std::uint64_t base, std::uint64_t size, std::uint64_t id) {
  gpu::MemoryHandle handle;
  handle.base = base;
  handle.size = size;
  handle.buffer_id = id;
  return handle;
}

memory::Range range(std::uint64_t base, std::uint64_t size) { return {base, base + size}; }

TEST(SmcudaExports, AnAllocationInThePlaceOfAnotherMeansThatTheOtherIsGone) {
  Exports exports;
  exports.add(allocation(0x10000, 0x1000, 1));
  exports.add(allocation(0x20000, 0x1000, 2));
  EXPECT_FALSE(exports.has_freed());
  exports.add(allocation(0x10800, 0x1000, 3));
  ASSERT_TRUE(exports.has_freed());
  wire::Freed freed{};
  ASSERT_TRUE(exports.take_freed(freed));
  EXPECT_EQ(freed.base, 0x10000u);
  EXPECT_FALSE(exports.take_freed(freed));
}

TEST(SmcudaExports, TheSameAllocationAgainIsNoNews) {
  Exports exports;
  for (int i = 0; i < 3; ++i) exports.add(allocation(0x10000, 0x1000, 1));
  EXPECT_FALSE(exports.has_freed());
}

TEST(SmcudaExports, WhatTheProgramReportsIsTakenOnce) {
  Exports exports;
  exports.add(allocation(0x10000, 0x1000, 1));
  exports.add(allocation(0x90000, 0x1000, 2));
  exports.released(range(0x10000, 0x1000));
  ASSERT_TRUE(exports.has_freed());
  wire::Freed freed{};
  ASSERT_TRUE(exports.take_freed(freed));
  EXPECT_EQ(freed.base, 0x10000u);
  EXPECT_FALSE(exports.take_freed(freed)) << "the other one lives";
  EXPECT_FALSE(exports.has_freed());
}

// Reports come from any thread, in the middle of a look.
TEST(SmcudaExports, NoReportIsLostHoweverThreadsMeet) {
  constexpr std::uint64_t kCount = 512;
  constexpr std::uint64_t kStep = 0x10000;
  constexpr std::uint64_t kBase = 0x1000000;
  for (int round = 0; round < 40; ++round) {
    Exports exports;
    for (std::uint64_t i = 0; i < kCount; ++i) exports.add(allocation(kBase + i * kStep, 0x1000, i + 1));
    std::atomic<bool> reported{false};
    std::thread other{[&] {
      // From the middle towards both ends, more than the backlog holds.
      for (std::uint64_t i = 0; i < kCount / 2; ++i) {
        exports.released(range(kBase + (kCount / 2 + i) * kStep, 0x1000));
        exports.released(range(kBase + (kCount / 2 - 1 - i) * kStep, 0x1000));
      }
      reported = true;
    }};
    std::set<std::uint64_t> gone;
    const auto take = [&] {
      for (wire::Freed freed{}; exports.take_freed(freed);) gone.insert(freed.base);
    };
    while (!reported) {
      if (exports.has_freed()) take();
    }
    other.join();
    while (exports.has_freed()) take();
    EXPECT_EQ(gone.size(), kCount) << "in round " << round;
  }
}

}  // namespace
}  // namespace opal::btl::smcuda
