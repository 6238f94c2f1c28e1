// SPDX-License-Identifier: Apache-2.0
// The FIFO over a plain array: order, fullness, laps, hints of every kind, many producers.
#include "opal/btl/sm/messages/memory/fifo.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/btl/sm/fifo_pop.hpp"

namespace opal::btl::sm {
namespace {

struct Queue {
  explicit Queue(std::size_t size) : slots(size), consumer(slots, tail), producer(slots, tail) { consumer.reset(); }
  std::vector<std::atomic<std::uint64_t>> slots;
  std::atomic<std::uint64_t> tail{0};
  FifoConsumer consumer;
  FifoProducer producer;
};

std::uint32_t pop_line(Queue& queue) {
  const auto item = pop(queue.consumer);
  return item ? item->line : UINT32_MAX;
}

TEST(Fifo, ItemsComeOutInTheOrderTheyWentInLapAfterLap) {
  Queue queue{8};
  EXPECT_TRUE(queue.consumer.empty());
  EXPECT_FALSE(pop(queue.consumer));
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < round % 9; ++i) in += queue.producer.push({7, in}) ? 1 : 0;
    for (int i = 0; i < (round * 5) % 9; ++i) {
      const auto item = pop(queue.consumer);
      if (!item) break;
      ASSERT_EQ(item->line, out++);
      ASSERT_EQ(item->peer, 7U);
    }
  }
  EXPECT_GT(out, 2000U);
  EXPECT_EQ(queue.consumer.head(), out);
}

TEST(Fifo, AFullQueueRefusesUntilAnItemIsTaken) {
  Queue queue{16};
  for (std::uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(queue.producer.push({0, i}));
  EXPECT_FALSE(queue.producer.push({0, 99}));
  EXPECT_EQ(pop_line(queue), 0U);
  EXPECT_TRUE(queue.producer.push({0, 16}));
  EXPECT_FALSE(queue.producer.push({0, 99}));
  for (std::uint32_t i = 1; i <= 16; ++i) EXPECT_EQ(pop_line(queue), i);
  EXPECT_TRUE(queue.consumer.empty());
}

TEST(Fifo, EveryFieldKeepsItsLargestValue) {
  Queue queue{2};
  ASSERT_TRUE(queue.producer.push({wire::kMaxPeers - 1, wire::kMaxLines - 1}));
  const auto item = pop(queue.consumer);
  ASSERT_TRUE(item);
  EXPECT_EQ(item->peer, wire::kMaxPeers - 1);
  EXPECT_EQ(item->line, wire::kMaxLines - 1);
}

TEST(Fifo, TheLapInASlotWrapsAround) {
  // Two slots and a lap of 27 bits: start close to the end of the laps instead of pushing 2^28 items.
  std::vector<std::atomic<std::uint64_t>> slots(2);
  const std::uint64_t lap = wire::kLapMask - 2;
  slots[0] = wire::empty_slot(lap);
  slots[1] = wire::empty_slot(lap);
  std::atomic<std::uint64_t> tail{lap * 2};
  FifoProducer producer{slots, tail};
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(producer.push({1, i}));
    std::atomic<std::uint64_t>& slot = slots[i % 2];
    ASSERT_EQ(slot.load(), wire::full_slot(lap + i / 2, {1, i}));
    slot = wire::empty_slot(lap + i / 2 + 1);
  }
}

TEST(Fifo, AHintThatLagsBehindIsFollowedToTheTruth) {
  Queue queue{8};
  std::uint32_t next = 0;
  for (int lap = 0; lap < 10; ++lap) {
    for (int i = 0; i < 5; ++i) {
      queue.tail = 0;  // as a producer would leave it that was stopped long ago and just goes on
      ASSERT_TRUE(queue.producer.push({0, next}));
      ASSERT_EQ(pop_line(queue), next++);
    }
  }
}

TEST(Fifo, NoHintWhateverStopsTheQueueOrReordersIt) {
  std::uint32_t random = 1;
  for (int round = 0; round < 2000; ++round) {
    Queue queue{8};
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    for (int i = 0; i < round % 40; ++i) {  // some history
      if (queue.producer.push({0, in})) ++in;
      if (i % 3 != 0 && pop_line(queue) == out) ++out;
    }
    random = random * 1664525U + 1013904223U;
    queue.tail = round % 2 == 0 ? std::uint64_t{random} << (random % 33) : queue.consumer.head() - 20 + random % 40;
    // The consumer finds out at the latest when it has emptied the queue.
    while (pop_line(queue) == out) ++out;
    EXPECT_EQ(in, out);
    queue.consumer.heal();
    for (std::uint32_t i = 0; i < 30; ++i) {
      ASSERT_TRUE(queue.producer.push({0, in++})) << "round " << round;
      ASSERT_EQ(pop_line(queue), out++) << "round " << round;
    }
  }
}

TEST(Fifo, ASlotFullOfNonsenseIsPassedOver) {
  Queue queue{4};
  ASSERT_TRUE(queue.producer.push({0, 1}));
  queue.slots[1] = 0xffff'ffff'ffff'ffffU;
  EXPECT_EQ(pop_line(queue), 1U);
  const auto item = pop(queue.consumer);
  ASSERT_TRUE(item);
  EXPECT_EQ(item->peer, wire::kMaxPeers) << "belongs to nobody";
  EXPECT_FALSE(pop(queue.consumer));
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(queue.producer.push({0, i})) << i;
    ASSERT_EQ(pop_line(queue), i);
  }
}

TEST(Fifo, ManyProducersLoseNothingAndEachKeepsItsOrder) {
  constexpr std::uint32_t kProducers = 4;
  constexpr std::uint32_t kEach = 30'000;
  Queue queue{64};
  std::vector<std::uint32_t> payload(kProducers * kEach);  // plain memory that the queue publishes
  std::vector<std::thread> threads;
  for (std::uint32_t who = 0; who < kProducers; ++who) {
    threads.emplace_back([&, who] {
      FifoProducer producer{queue.slots, queue.tail};
      for (std::uint32_t i = 0; i < kEach; ++i) {
        payload[who * kEach + i] = i ^ 0x5555;
        while (!producer.push({who, i})) std::this_thread::yield();
      }
    });
  }
  std::vector<std::uint32_t> next(kProducers);
  for (std::uint32_t received = 0; received < kProducers * kEach;) {
    const auto item = pop(queue.consumer);
    if (!item) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_LT(item->peer, kProducers);
    ASSERT_EQ(item->line, next[item->peer]++);
    ASSERT_EQ(payload[item->peer * kEach + item->line], item->line ^ 0x5555);
    if (++received % 1000 == 0) queue.consumer.heal();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(queue.consumer.empty());
}

}  // namespace
}  // namespace opal::btl::sm
