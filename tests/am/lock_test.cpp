// SPDX-License-Identifier: Apache-2.0
#include "opal/am/lock.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/harness/process.hpp"

namespace opal::am {
namespace {

TEST(ContextLock, CountersThatThreadsIncreaseUnderItLoseNothing) {
  Lock lock{ThreadLevel::multiple};
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  int count = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const Lock::Guard guard{lock};
          const Lock::Guard again{lock};  // recursive
          ++count;
        }
      });
    }
  }
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(ContextLock, AThreadGetsItWhileAnotherTakesItWithoutPause) {
  Lock lock{ThreadLevel::multiple};
  bool stop = false;
  std::jthread busy{[&] {
    for (bool go_on = true; go_on;) {
      const Lock::Guard guard{lock};
      go_on = !stop;
    }
  }};
  for (int i = 0; i < 100; ++i) const Lock::Guard guard{lock};
  const Lock::Guard guard{lock};
  stop = true;
}

TEST(ContextLock, AThreadGetsItWhileAnotherHoldsItForLong) {
  Lock lock{ThreadLevel::multiple};
  std::array<std::atomic<pid_t>, 2> ids{};
  int taken = 0;
  {
    std::vector<std::jthread> threads;  // joined after the guard is gone
    const Lock::Guard guard{lock};
    for (auto& id : ids) {
      threads.emplace_back([&] {
        id = ::gettid();
        const Lock::Guard mine{lock};
        ++taken;
      });
    }
    for (const auto& id : ids) {
      while (id == 0 || test::state_of(id) != 'S') std::this_thread::yield();  // it has stopped spinning
    }
    EXPECT_EQ(taken, 0);
    lock.give_way();  // has a limit, so it returns
  }
  EXPECT_EQ(taken, 2);
}

TEST(ContextLock, ATryGuardIsFalseWhileAnotherThreadHoldsIt) {
  Lock lock{ThreadLevel::multiple};
  const Lock::Guard guard{lock};
  std::jthread{[&] { EXPECT_FALSE(Lock::TryGuard{lock}); }}.join();
  EXPECT_TRUE(Lock::TryGuard{lock});
}

}  // namespace
}  // namespace opal::am
