// SPDX-License-Identifier: Apache-2.0
#include "opal/core/sync/yield_policy.hpp"

#include <gtest/gtest.h>

namespace opal {
namespace {

constexpr std::chrono::microseconds kSpin{50};
constexpr std::uint32_t kMost = kSpin / YieldPolicy::kCost;

int waits_that_sleep_at_once(YieldPolicy& turns) {
  int count = 0;
  while (turns.begin(kSpin) == 0) ++count;
  return count;
}

TEST(YieldPolicy, ShortTurnsAreGivenInEveryWait) {
  YieldPolicy turns;
  for (int wait = 0; wait < 10'000; ++wait) {
    ASSERT_EQ(turns.begin(kSpin), kMost);
    for (std::uint32_t turn = 0; turn < kMost; ++turn) ASSERT_TRUE(turns.record_yield(20'000));
  }
}

TEST(YieldPolicy, ALongTurnEndsTheWaitAndSomeWaitsAfterItSleepAtOnce) {
  YieldPolicy turns;
  ASSERT_EQ(turns.begin(kSpin), kMost);
  EXPECT_TRUE(turns.record_yield(5'000));
  EXPECT_FALSE(turns.record_yield(3'000'000));
  EXPECT_EQ(waits_that_sleep_at_once(turns), static_cast<int>(YieldPolicy::kLeastRest));
}

TEST(YieldPolicy, BesideAProcessThatComputesTheCoreIsGivenAwayEverMoreRarely) {
  YieldPolicy turns;
  int before = 0;
  ASSERT_EQ(turns.begin(kSpin), kMost);
  for (int time = 0; time < 20; ++time) {
    EXPECT_TRUE(turns.record_yield(5'000)) << "a fellow's turn in between changes nothing";
    EXPECT_FALSE(turns.record_yield(3'000'000));
    const int slept = waits_that_sleep_at_once(turns);
    EXPECT_GE(slept, before);
    before = slept;
  }
  EXPECT_EQ(before, static_cast<int>(YieldPolicy::kMostRest));
}

TEST(YieldPolicy, OnceThatProcessHasGoneARareLongTurnCostsLittleAgain) {
  YieldPolicy turns;
  ASSERT_EQ(turns.begin(kSpin), kMost);
  for (int time = 0; time < 20; ++time) {
    EXPECT_FALSE(turns.record_yield(3'000'000));
    waits_that_sleep_at_once(turns);
  }
  for (int wait = 0; wait < 12; ++wait) EXPECT_EQ(turns.begin(kSpin), kMost);
  EXPECT_FALSE(turns.record_yield(3'000'000));
  EXPECT_EQ(waits_that_sleep_at_once(turns), static_cast<int>(YieldPolicy::kLeastRest));
}

}  // namespace
}  // namespace opal
