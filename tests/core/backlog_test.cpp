// SPDX-License-Identifier: Apache-2.0
#include "opal/core/sync/backlog.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace opal {
namespace {

TEST(Backlog, WhatIsAddedIsTakenOnce) {
  Backlog<std::uint32_t, 64> slots;
  std::set<std::uint32_t> taken;
  const auto keep = [&](std::uint32_t slot) { EXPECT_TRUE(taken.insert(slot).second) << slot; };
  EXPECT_FALSE(slots.any());
  EXPECT_FALSE(slots.take(keep));
  slots.add(0);
  slots.add(7);
  EXPECT_TRUE(slots.any());
  EXPECT_FALSE(slots.take(keep));
  EXPECT_EQ(taken, (std::set<std::uint32_t>{0, 7}));
  EXPECT_FALSE(slots.any());
  EXPECT_FALSE(slots.take(keep));
}

TEST(Backlog, MoreThanThereIsRoomForIsSaid) {
  Backlog<std::uint32_t, 64> slots;
  for (std::uint32_t slot = 0; slot < 65; ++slot) slots.add(slot);
  EXPECT_TRUE(slots.take([](std::uint32_t) {}));
  slots.add(1);
  EXPECT_FALSE(slots.take([](std::uint32_t) {}));
}

TEST(Backlog, NothingAddedByOtherThreadsIsMissed) {
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kEach = 20'000;
  Backlog<std::uint32_t, 64> slots;
  std::vector<bool> seen(std::size_t{kThreads} * kEach);
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> running{kThreads};
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < kEach; ++i) slots.add(thread * kEach + i);
      --running;
    });
  }
  bool lost = false;  // then everything is looked at: nothing is missed either
  bool last = false;
  do {
    last = running == 0;
    lost = slots.take([&](std::uint32_t slot) { seen[slot] = true; }) || lost;
  } while (!last);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(slots.any());
  for (std::size_t i = 0; !lost && i < seen.size(); ++i) EXPECT_TRUE(seen[i]) << i;
}

}  // namespace
}  // namespace opal
