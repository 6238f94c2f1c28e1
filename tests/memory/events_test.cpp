// SPDX-License-Identifier: Apache-2.0
// Listeners of memory events: which event reaches which listener, and that removal waits for calls in flight.
#include "opal/memory/events/events.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

namespace opal::memory {
namespace {

struct Heard final : Listener {
  void released(Range range) noexcept override { last = range, ++count; }
  Range last;
  int count = 0;
};

TEST(MemoryEvents, EveryListenerHearsARangeAndNobodyAfterRemoval) {
  std::deque<Heard> listeners(100);
  for (Heard& listener : listeners) ASSERT_TRUE(add_listener(listener));
  released({0x1000, 0x3000});
  for (Heard& listener : listeners) {
    EXPECT_EQ(listener.count, 1);
    EXPECT_EQ(listener.last, (Range{0x1000, 0x3000}));
    remove_listener(listener);
  }
  released({0x1000, 0x3000});
  for (Heard& listener : listeners) EXPECT_EQ(listener.count, 1);
}

TEST(MemoryEvents, AListenerBeyondTheLimitIsRefusedUntilAnotherOneEnds) {
  std::deque<Heard> listeners;
  Result<void> added;
  while (listeners.size() <= kMostListeners && (added = add_listener(listeners.emplace_back()))) {
  }
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::limit_reached);
  remove_listener(listeners.front());
  EXPECT_TRUE(add_listener(listeners.back()));
  released({0x1000, 0x3000});
  EXPECT_EQ(listeners.back().count, 1);
  for (Heard& listener : listeners) remove_listener(listener);
}

TEST(MemoryEvents, AnEmptyRangeIsNotReported) {
  Heard listener;
  ASSERT_TRUE(add_listener(listener));
  released({0x1000, 0x1000});
  EXPECT_EQ(listener.count, 0);
  remove_listener(listener);
}

TEST(MemoryEvents, RangesAreWholePagesAndNeverWrap) {
  EXPECT_EQ(Range::pages(0x1234, 1), (Range{0x1000, 0x2000}));
  EXPECT_EQ(Range::pages(0x1fff, 2), (Range{0x1000, 0x3000}));
  EXPECT_TRUE(Range::pages(0x1000, 0).empty());
  const Range rest = Range::pages(UINTPTR_MAX - 8192, UINTPTR_MAX);
  EXPECT_LT(rest.begin, rest.end);
}

TEST(MemoryEvents, NoCallIsUnderWayWhenRemovalReturns) {
  struct Mortal final : Listener {
    void released(Range /*range*/) noexcept override { EXPECT_TRUE(alive.load()); }
    std::atomic<bool> alive{true};
  };
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) released({0x1000, 0x2000});
    });
  }
  for (int round = 0; round < 2000; ++round) {
    Mortal listener;
    ASSERT_TRUE(add_listener(listener));
    remove_listener(listener);
    listener.alive.store(false);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace opal::memory
