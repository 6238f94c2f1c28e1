// SPDX-License-Identifier: Apache-2.0
// What a sender may have under way, and what is kept for answers: in the queue, in a segment's fragments, in the whole;
// and how a sender sleeps until it may have more under way.
#include <poll.h>

#include <set>

#include "opal/btl/sm/module.hpp"
#include "opal/btl/tag.hpp"
#include "tests/btl/sm/fifo_pop.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

constexpr Tag kAnswer = kAmTags.last;
static_assert(is_answer(kAnswer) && !is_answer(kTag));

/// No boxes: everything goes by FIFO.
config::Store small_queue(const char* slots) {
  config::Store store;
  store.set("btl_sm_fbox_max", "0");
  store.set("btl_sm_fifo_slots", slots);
  return store;
}

std::size_t flood(Side& from, btl::Endpoint& to, Tag tag, std::size_t size) {
  const auto payload = pattern(size, 1);
  std::size_t count = 0;
  while (from.module().send_inline(to, tag, {}, payload) == Post::done) ++count;
  EXPECT_FALSE(to.dead());
  return count;
}

TEST(SmFragmentPool, KeepsSomeForAnswersAndTakesThemBackInTheirTurn) {
  auto memory = mpool::SharedPool::create("test", 1 << 20);
  ASSERT_TRUE(memory);
  std::atomic<std::uint32_t> released[2] = {};
  FragmentPool pool{*memory, released, {1000, 4000}, 128 << 10};
  const std::size_t most = (std::size_t{128 << 10} / 4) / align_up(1016, kCacheLine);
  std::uint32_t sent = 0;
  const auto send = [&](bool answer) {
    const FragmentRef fragment = pool.take(1, answer);
    if (fragment) pool.sent(fragment), ++sent;
    return static_cast<bool>(fragment);
  };
  while (send(false)) {
  }
  EXPECT_EQ(sent, most - FragmentPool::kForAnswers);
  while (send(true)) {
  }
  EXPECT_EQ(sent, most);
  released[0] = 1;
  EXPECT_FALSE(send(false)) << "the first that comes back is the answers'";
  EXPECT_TRUE(send(true));
  released[0] = 1 + FragmentPool::kForAnswers;
  EXPECT_FALSE(send(false));
  released[0] = 2 + FragmentPool::kForAnswers;
  EXPECT_TRUE(send(false));
  EXPECT_FALSE(send(false));
  EXPECT_FALSE(pool.broken());
}

TEST(SmFragmentPool, APeerThatGetsFewMessagesGetsThemInFewFragments) {
  auto memory = mpool::SharedPool::create("test", 1 << 20);
  ASSERT_TRUE(memory);
  std::atomic<std::uint32_t> released[2] = {};
  FragmentPool pool{*memory, released, {1000, 4000}, 128 << 10};
  std::set<std::uint32_t> lines;
  for (std::uint32_t i = 0; i < 8; ++i) {  // each is returned before the next one is sent
    const FragmentRef fragment = pool.take(1, false);
    ASSERT_TRUE(fragment);
    lines.insert(fragment.line);
    pool.sent(fragment);
    released[0] = i + 1;
  }
  EXPECT_EQ(lines.size(), 1U) << "each new fragment is a page that both sides touch for the first time";
}

TEST(SmFragmentPool, TheCountersOfWhatHasBeenGivenBackWrapAround) {
  auto memory = mpool::SharedPool::create("test", 1 << 20);
  ASSERT_TRUE(memory);
  std::atomic<std::uint32_t> released[2] = {UINT32_MAX - 20, UINT32_MAX};
  FragmentPool pool{*memory, released, {1000, 4000}, 128 << 10};
  for (int i = 0; i < 60; ++i) {
    for (const std::size_t size : {1, 2000}) {
      const FragmentRef fragment = pool.take(size, false);
      ASSERT_TRUE(fragment) << i;
      pool.sent(fragment);
    }
    ++released[0];
    if (i % 3 == 2) released[1] += 3;
    ASSERT_FALSE(pool.broken()) << i;
  }
  EXPECT_EQ(released[0], 39U);
  released[0] += 1;  // one that was never sent
  while (pool.take(1, true)) {
  }
  EXPECT_TRUE(pool.broken());
}

TEST(SmFragmentPool, TheWindowCountsBothSizesTogether) {
  auto memory = mpool::SharedPool::create("test", 1 << 20);
  ASSERT_TRUE(memory);
  std::atomic<std::uint32_t> released[2] = {};
  FragmentPool pool{*memory, released, {1000, 4000}, 512 << 10};
  pool.set_window(6);
  for (const std::size_t size : {1, 2000, 1, 2000, 1, 2000}) {
    const FragmentRef fragment = pool.take(size, false);
    ASSERT_TRUE(fragment);
    pool.sent(fragment);
  }
  EXPECT_FALSE(pool.take(1, false));
  EXPECT_FALSE(pool.take(2000, false));
  const FragmentRef answer = pool.take(1, true);
  ASSERT_TRUE(answer);
  pool.put_back(answer);
  released[1] = 1;
  EXPECT_TRUE(pool.take(1, false)) << "room given back by the other size counts too";
}

TEST(SmFragmentPool, TheWindowCountsFragmentsThatAreNotSentYet) {
  auto memory = mpool::SharedPool::create("test", 1 << 20);
  ASSERT_TRUE(memory);
  std::atomic<std::uint32_t> released[2] = {};
  FragmentPool pool{*memory, released, {1000, 4000}, 512 << 10};
  pool.set_window(2);
  const FragmentRef first = pool.take(1, false);
  const FragmentRef second = pool.take(1, false);
  ASSERT_TRUE(second);
  EXPECT_FALSE(pool.take(1, false)) << "all of them may be sent at once, and one sender must not fill the FIFO";
  pool.put_back(first);
  EXPECT_TRUE(pool.take(1, false));
}

TEST(SmFifo, PlaceIsKeptAtEveryFillAndLap) {
  for (const std::size_t keep : {1U, 4U, 15U}) {
    std::vector<std::atomic<std::uint64_t>> slots(16);
    std::atomic<std::uint64_t> tail{0};
    FifoConsumer consumer{slots, tail};
    consumer.reset();
    FifoProducer producer{slots, tail};
    std::size_t inside = 0;
    for (std::uint32_t step = 0; step < 2000; ++step) {
      const bool pushed = producer.push({0, step}, keep);
      EXPECT_EQ(pushed, inside + keep < 16) << keep << " kept, " << inside << " inside, step " << step;
      inside += pushed ? 1 : 0;
      for (std::uint32_t take = step * 7 % 5; take > 1 && pop(consumer); --take) --inside;
    }
    while (inside < 16) {
      ASSERT_TRUE(producer.push({0, 0}));
      ++inside;
    }
    EXPECT_FALSE(producer.push({0, 0}));
  }
}

TEST(SmCredits, OneSenderCannotFillTheQueueOfOthers) {
  Side receiver{"sm", small_queue("64")};
  Side loud{"sm"};
  Side quiet{"sm"};
  EXPECT_EQ(flood(loud, *loud.connect(receiver), kTag, 8), 16U) << "a quarter of the slots";
  EXPECT_EQ(quiet.module().send_inline(*quiet.connect(receiver), kTag, {}, {}), Post::done);
}

TEST(SmCredits, AnswersGetThroughHoweverManyFlood) {
  Side receiver{"sm", small_queue("16")};
  std::vector<std::unique_ptr<Side>> senders;
  std::vector<btl::Endpoint*> routes;
  std::size_t flooded = 0;
  for (int i = 0; i < 6; ++i) {
    senders.push_back(std::make_unique<Side>("sm"));
    routes.push_back(senders.back()->connect(receiver));
    flooded += flood(*senders.back(), *routes.back(), kTag, i % 2 == 0 ? 8 : 8000);
  }
  EXPECT_EQ(flooded, 12U) << "three quarters of the slots";
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(senders[i]->module().send_inline(*routes[i], kAnswer, {}, {}), Post::done) << i;
  }
  EXPECT_EQ(senders[4]->module().send_inline(*routes[4], kAnswer, {}, {}), Post::again) << "16 slots are full";
  EXPECT_TRUE(pump([&] { return receiver.received.size() == flooded; }, receiver));
  for (int i = 0; i < 6; ++i) {
    flooded += flood(*senders[i], *routes[i], kTag, 8);
    EXPECT_TRUE(pump([&] { return receiver.received.size() == flooded; }, receiver));
  }
  EXPECT_EQ(flooded, 12U + 6U * 4U) << "nobody's credits are lost";
}

bool is_awake(Side& side, int timeout_ms) {
  pollfd fd{side.module().wait_fd(), POLLIN, 0};
  return ::poll(&fd, 1, timeout_ms) == 1;
}

/// A sender floods with messages of `size` by `settings` until it is refused, and others with it; then it sleeps.
void expect_to_be_woken_by_room(const config::Store& settings, std::size_t size, int others) {
  Side receiver{"sm", settings};
  Side sender{"sm", settings};
  btl::Endpoint& route = *sender.connect(receiver);
  std::size_t sent = 0;
  for (int i = 0; i < 40; ++i) {  // there is a box, if there is to be one
    ASSERT_EQ(test::send(route, pattern(8, 1), {}, sender, receiver), Post::done);
    ASSERT_TRUE(pump([&] { return receiver.received.size() == sent + 1; }, receiver, sender));
    ++sent;
  }
  std::vector<std::unique_ptr<Side>> crowd;
  for (int i = 0; i < others; ++i) {
    crowd.push_back(std::make_unique<Side>("sm", settings));
    sent += flood(*crowd.back(), *crowd.back()->connect(receiver), kTag, size);
  }
  for (int sleep = 0; sleep < 3; ++sleep) {
    sent += flood(sender, route, kTag, size);
    ASSERT_TRUE(sender.module().arm()) << "nothing has changed since it was refused";
    EXPECT_FALSE(is_awake(sender, 0));
    ASSERT_TRUE(pump([&] { return receiver.received.size() == sent; }, receiver));
    EXPECT_TRUE(is_awake(sender, 60'000)) << "nobody said that there is room";
    sender.module().progress(64);

    sent += flood(sender, route, kTag, size);
    ASSERT_TRUE(pump([&] { return receiver.received.size() == sent; }, receiver));
    EXPECT_FALSE(sender.module().arm()) << "there is room already";
    ASSERT_TRUE(sender.module().arm()) << "nobody has been refused since";
    receiver.module().progress(64);
    EXPECT_FALSE(is_awake(sender, 0)) << "it does not wait for anything";
    sender.module().progress(64);
  }
}

config::Store with(std::initializer_list<std::array<std::string_view, 2>> settings) {
  config::Store store;
  for (const auto& [name, value] : settings) store.set(name, value);
  return store;
}

TEST(SmRoom, WhoSleepsForAFragmentIsWokenWhenOneIsGivenBack) {
  expect_to_be_woken_by_room(with({{"btl_sm_fbox_max", "0"}, {"btl_sm_segment_size", "256K"}}), 20'000, 0);
}

TEST(SmRoom, WhoSleepsForItsShareOfTheQueueIsWokenWhenTheQueueIsEmptied) {
  expect_to_be_woken_by_room(small_queue("64"), 8, 0);
}

TEST(SmRoom, WhoSleepsBecauseOthersHaveFilledTheQueueIsWokenWhenItIsEmptied) {
  expect_to_be_woken_by_room(small_queue("16"), 8, 4);
}

TEST(SmRoom, WhoSleepsBesideAFullBoxIsWokenWhenItIsEmptied) {
  expect_to_be_woken_by_room(with({{"btl_sm_fbox_size", "4K"}, {"btl_sm_fifo_slots", "16"}}), 100, 0);
}

TEST(SmRoom, ARefusalAfterTheSleepAndBeforeTheNextProgressIsNotForgotten) {
  const auto settings = small_queue("64");
  Side receiver{"sm", settings};
  Side sender{"sm", settings};
  btl::Endpoint& route = *sender.connect(receiver);
  std::size_t sent = flood(sender, route, kTag, 8);
  for (int sleep = 0; sleep < 3; ++sleep) {
    sender.module().progress(64);
    ASSERT_TRUE(sender.module().arm());
    ASSERT_TRUE(pump([&] { return receiver.received.size() == sent; }, receiver));
    ASSERT_TRUE(is_awake(sender, 60'000)) << "sleep " << sleep;
    while (sender.module().send_inline(route, kTag, pattern(8, 1), {}) == Post::done) ++sent;
  }
}

TEST(SmRoom, WhatDoesNotFitTheBoxIsNotPromisedRoomThere) {
  const auto settings = with({{"btl_sm_fbox_size", "4K"}, {"btl_sm_segment_size", "256K"}});
  expect_to_be_woken_by_room(settings, 20'000, 0);
}

}  // namespace
}  // namespace opal::btl::sm
