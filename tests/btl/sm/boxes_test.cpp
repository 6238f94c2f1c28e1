// SPDX-License-Identifier: Apache-2.0
// Fast boxes over their life: granted, parked when idle, notified, taken back for others, granted again; and that the
// order of messages holds whatever happens to the box in between.
#include <atomic>
#include <thread>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::kTag;
using test::pump;
using test::Side;

constexpr int kIdleRounds = 3000;  // more than a sweep and a first limit of idle rounds

Module& module_of(Side& side) { return static_cast<Module&>(side.module()); }

/// Boxes of 4 KiB, which carry messages of less than 1 KiB.
config::Store with(std::string_view name, std::string_view value) {
  config::Store store;
  store.set("btl_sm_fbox_size", "4096");
  store.set(name, value);
  return store;
}

void idle(Side& side, int rounds = kIdleRounds) {
  for (int i = 0; i < rounds; ++i) side.module().progress(64);
}

/// One receiver and several senders; every message carries the number of its sender and its place in that stream.
struct Star {
  Star(std::size_t count, const config::Store& store) : Star(count, store, store) {}
  Star(std::size_t count, const config::Store& store, const config::Store& of_senders)
      : receiver("sm", store), received(count), sent(count) {
    receiver.handler = [this](btl::Delivery& delivery) {
      std::uint32_t words[2] = {};
      ASSERT_TRUE(read_object(delivery.data, words));
      ASSERT_LT(words[0], received.size());
      ASSERT_EQ(words[1], received[words[0]]) << "from sender " << words[0];
      ++received[words[0]];
    };
    for (std::size_t i = 0; i < count; ++i) {
      senders.push_back(std::make_unique<Side>("sm", of_senders));
      routes.push_back(senders.back()->connect(receiver));
    }
  }

  /// Posts the next message of a sender, padded to `size`; false when there is no room now.
  bool post(std::uint32_t sender, std::size_t size = 0) {
    const std::uint32_t words[2] = {sender, sent[sender]};
    const std::vector<std::byte> rest(size);
    const Post post = senders[sender]->module().send_inline(*routes[sender], kTag, bytes_of(words), rest);
    EXPECT_NE(post, Post::failed);
    sent[sender] += post == Post::done ? 1 : 0;
    return post == Post::done;
  }
  void exchange(std::uint32_t sender, int count, std::size_t size = 0) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(post(sender, size));
      ASSERT_TRUE(pump([&] { return received[sender] == sent[sender]; }, receiver));
    }
  }
  [[nodiscard]] bool on(std::size_t sender) const { return has_fast_box(*routes[sender]); }

  Side receiver;
  std::vector<std::unique_ptr<Side>> senders;
  std::vector<btl::Endpoint*> routes;
  std::vector<std::uint32_t> received;
  std::vector<std::uint32_t> sent;
};

TEST(SmBoxes, IdleOnesAreNotLookedAtUntilTheyRing) {
  Star star{20, {}};
  for (std::uint32_t i = 0; i < 20; ++i) star.exchange(i, 30);
  Module& module = module_of(star.receiver);
  ASSERT_EQ(fast_boxes(module).accepted(), 20U);
  idle(star.receiver);
  EXPECT_EQ(fast_boxes(module).accepted(), 20U);
  EXPECT_LE(fast_boxes(module).polled().size(), 4U);
  for (std::uint32_t i = 0; i < 20; ++i) star.exchange(i, 1);
  EXPECT_EQ(fast_boxes(module).polled().size(), 20U) << "each has notified";
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(star.on(i)) << i;
}

TEST(SmBoxes, ASleepingReceiverIsWokenByAParkedBox) {
  Star star{8, {}};
  for (std::uint32_t i = 0; i < 8; ++i) star.exchange(i, 30);
  idle(star.receiver);
  ASSERT_LE(fast_boxes(module_of(star.receiver)).polled().size(), 4U);
  for (std::uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(pump([&] { return star.receiver.module().arm(); }, star.receiver));
    ASSERT_TRUE(star.post(i));
    EXPECT_FALSE(star.receiver.module().arm()) << "there is work";
    ASSERT_TRUE(pump([&] { return star.received[i] == star.sent[i]; }, star.receiver));
  }
}

TEST(SmBoxes, AMessageBehindANotifiedBoxBringsItsRecordOutAndTheBoxStaysAlive) {
  Star star{6, {}};
  for (std::uint32_t i = 0; i < 6; ++i) star.exchange(i, 30);
  idle(star.receiver);
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(star.post(i));        // by box, and rings
    ASSERT_TRUE(star.post(i, 3000));  // by FIFO, which is looked at before the next notification
    ASSERT_TRUE(pump([&] { return star.received[i] == star.sent[i]; }, star.receiver));
    star.exchange(i, 3);
  }
}

TEST(SmBoxes, AnIdleOneIsTakenBackForOneWhoAsksAndItsSenderLosesNothing) {
  Star star{3, with("btl_sm_fbox_max", "2")};
  star.exchange(0, 30);
  star.exchange(1, 30);
  idle(star.receiver);
  star.exchange(2, 18);
  EXPECT_TRUE(star.on(2)) << "at the first time of asking";
  EXPECT_EQ(fast_boxes(module_of(star.receiver)).accepted(), 2U);
  star.exchange(0, 1);
  star.exchange(1, 1);
  EXPECT_FALSE(star.on(0)) << "the one that was idle longest";
  EXPECT_TRUE(star.on(1));
  idle(star.receiver);
  star.exchange(0, 18);
  EXPECT_TRUE(star.on(0)) << "granted again, and one of the others has gone";
  EXPECT_EQ(fast_boxes(module_of(star.receiver)).accepted(), 2U);
  for (int round = 0; round < 20; ++round) {
    for (std::uint32_t i = 0; i < 3; ++i) star.exchange(i, 17);
    idle(star.receiver, 1500);
  }
}

TEST(SmBoxes, AMessageOfTheFifoBringsOutNoMoreOfTheBoxThanTheRoundMayTake) {
  Star star{1, with("btl_sm_fbox_max", "2")};
  star.exchange(0, 30);
  ASSERT_TRUE(star.on(0));
  const std::uint32_t before = star.received[0];
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(star.post(0));
  ASSERT_TRUE(star.post(0, 2000)) << "by FIFO";
  std::uint32_t last = before;
  for (int round = 0; star.received[0] != star.sent[0]; ++round) {
    ASSERT_LT(round, 100);
    star.receiver.module().progress(4);
    EXPECT_LE(star.received[0] - last, 4U + 8U) << "from the box, and the least that is taken from the FIFO";
    EXPECT_GT(star.received[0], last) << "each round goes on";
    last = star.received[0];
  }
}

TEST(SmBoxes, ThoseThatAreLargerThanTheReceiversOwnStayWithinItsBytes) {
  config::Store smaller = with("btl_sm_fbox_max", "12");
  smaller.set("btl_sm_fbox_size", "1K");
  Star star{5, smaller, with("btl_sm_fbox_max", "12")};
  for (std::uint32_t i = 0; i < 5; ++i) {
    star.exchange(i, 30);
    EXPECT_LE(fast_boxes(module_of(star.receiver)).accepted(), 3U) << "of 4 KiB each";
  }
  EXPECT_EQ(fast_boxes(module_of(star.receiver)).accepted(), 3U);
  EXPECT_FALSE(star.on(4));
  smaller.set("btl_sm_fbox_max", "3");
  Star tight{1, smaller, with("btl_sm_fbox_max", "3")};
  tight.exchange(0, 40);
  EXPECT_EQ(fast_boxes(module_of(tight.receiver)).accepted(), 0U);
}

TEST(SmBoxes, OrderHoldsWhileBoxesComeAndGoInMidStream) {
  config::Store store = with("btl_sm_fbox_max", "2");
  Star star{6, store};
  std::uint32_t random = 7;
  const auto next = [&] { return (random = random * 1664525U + 1013904223U) >> 8; };
  int grants = 0;
  for (int step = 0; step < 5000; ++step) {
    // One or two of them talk, in runs of mixed sizes, while the receiver lags by chance; then all are idle.
    const std::uint32_t first = next() % 6;
    const std::uint32_t second = next() % 6;
    const bool had = star.on(first);
    for (int i = 0; i < 80; ++i) {
      const std::size_t size = next() % 10 == 0 ? 1500 + next() % 2000 : next() % 60;
      if (!star.post(next() % 3 == 0 ? second : first, size) || next() % 8 == 0) {
        star.receiver.module().progress(next() % 16);
      }
    }
    grants += !had && star.on(first) ? 1 : 0;
    if (next() % 2 == 0) idle(star.receiver, 1100);
  }
  for (std::uint32_t i = 0; i < 6; ++i) star.exchange(i, 1);
  EXPECT_EQ(star.received, star.sent);
  EXPECT_GT(grants, 100) << "else nothing was taken back";
}

TEST(SmBoxes, OrderHoldsWhenSendersInOtherThreadsMeetParkingAndTakingBack) {
  constexpr std::uint32_t kSenders = 8;
  constexpr int kBursts = 60;
  Star star{kSenders, with("btl_sm_fbox_max", "6")};
  std::vector<std::atomic<int>> bursts(kSenders);
  std::atomic<int> allowed{0};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kSenders; ++i) {
    threads.emplace_back([&, i] {
      for (int burst = 0; burst < kBursts; ++burst) {
        while (allowed.load() < burst) std::this_thread::yield();
        for (int k = 0; k < 20 + static_cast<int>(i); ++k) {
          while (!star.post(i, k % 7 == 0 ? 2000 : 8)) std::this_thread::yield();
        }
        ++bursts[i];
      }
    });
  }
  Side& receiver = star.receiver;
  std::size_t least_polled = kSenders;
  for (int burst = 0; burst < kBursts; ++burst) {
    EXPECT_TRUE(
        pump([&] { return std::all_of(bursts.begin(), bursts.end(), [&](auto& n) { return n > burst; }); }, receiver));
    // Idle for about as long as it takes to park, so that the next burst meets every moment of it.
    idle(receiver, 2048 - burst % 3 * 40);
    least_polled = std::min(least_polled, fast_boxes(module_of(receiver)).polled().size());
    ++allowed;
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(pump([&] { return star.received == star.sent; }, receiver));
  EXPECT_LT(least_polled, 6U) << "some were parked";
}

}  // namespace
}  // namespace opal::btl::sm
