// SPDX-License-Identifier: Apache-2.0
// What a short message costs, counted instruction by instruction, against the budget of docs/design/sm.md.
#include <unistd.h>

#include <algorithm>

#include "opal/am/context.hpp"
#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/btl/sm/sides.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::btl::sm {
namespace {

using test::count_steps;
using test::kTag;
using test::pump;
using test::Side;
using test::step_mark;
using test::Steps;

constexpr const char* kNeeds = "needs ptrace: x86-64 and a kernel that lets a process trace its child";

struct Counter {
  void on_message(btl::Delivery&) noexcept { ++count; }
  std::uint64_t count = 0;
};

TEST(SmCost, AShortMessageBetweenContextsStaysWithinItsBudgetOfInstructions) {
  const auto pieces = count_steps([] {
    config::Store store;
    store.set("am_transports", "sm");
    auto a = am::Context::open(store);
    auto b = am::Context::open(store);
    Counter counter;
    if (!a || !b || !(*b)->set_handler(kTag, btl::bind<&Counter::on_message>(counter, "count"))) ::_exit(3);
    auto peer = (*a)->connect((*b)->address());
    if (!peer) ::_exit(4);
    const std::uint64_t word = 1;
    for (std::uint64_t i = 1; i <= 40; ++i) {
      if ((*peer)->send_inline(kTag, bytes_of(word), {}) != Post::done) ::_exit(5);
      while (counter.count != i) (*b)->progress();
    }
    (*b)->progress();
    step_mark();
    const Post post = (*peer)->send_inline(kTag, bytes_of(word), {});
    step_mark();
    if (post != Post::done) ::_exit(7);
    step_mark();
    (*b)->progress();
    step_mark();
    step_mark();
    (*b)->progress();
    step_mark();
    if (counter.count != 41) ::_exit(6);
  });
  if (!pieces) GTEST_SKIP() << kNeeds;
  ASSERT_EQ(pieces->size(), 3U);
  const Steps& send = (*pieces)[0];
  const Steps& receive = (*pieces)[1];
  const Steps& idle = (*pieces)[2];
  // Measured 129, 292 and 163 by g++ 12 at -O3; the room is for other compilers, not for more work.
  RecordProperty("send", static_cast<int>(send.instructions));
  RecordProperty("receive", static_cast<int>(receive.instructions));
  RecordProperty("idle_round", static_cast<int>(idle.instructions));
  EXPECT_LE(send.instructions, 150U);
  EXPECT_LE(receive.instructions, 330U);
  EXPECT_LE(idle.instructions, 170U);
  for (const Steps& piece : *pieces) {
    EXPECT_EQ(piece.locked, 0U) << "an atomic read-modify-write";
    EXPECT_EQ(piece.system_calls, 0U);
  }
}

TEST(SmCost, OnlyOneOfManySendsToAFullBoxWaitsForRoom) {
  const auto pieces = count_steps([] {
    config::Store store;
    store.set("btl_sm_fbox_size", "1024");
    Side receiver{"sm", store};
    Side sender{"sm", store};
    Counter counter;
    if (!receiver.handlers().set(kTag + 1, btl::bind<&Counter::on_message>(counter, "count"))) ::_exit(3);
    btl::Endpoint& route = *sender.connect(receiver);
    const std::uint64_t word = 1;
    const auto send = [&] {
      if (sender.module().send_inline(route, kTag + 1, bytes_of(word), {}) != Post::done) ::_exit(4);
    };
    const auto drain = [&] {
      while (receiver.module().progress(64) != 0) {
      }
    };
    {
      std::vector<btl::Fragment> fragments;  // made now, since making them is not counted
      for (int i = 0; i < 8; ++i) fragments.push_back(sender.module().alloc(route, sizeof word));
    }
    for (int i = 0; i < 40; ++i) {
      send();
      drain();
    }
    for (int i = 0; i < 20; ++i) {  // the ring has 16 lines
      step_mark();
      send();
      step_mark();
    }
    drain();
    for (int i = 0; i < 200; ++i) {  // the box is tried again
      send();
      drain();
    }
    step_mark();
    send();
    step_mark();
    drain();
    if (counter.count != 40 + 20 + 200 + 1) ::_exit(5);
  });
  if (!pieces) GTEST_SKIP() << kNeeds;
  ASSERT_EQ(pieces->size(), 21U);
  const auto waited = [](const Steps& piece) { return piece.instructions > 1000; };
  EXPECT_EQ(std::count_if(pieces->begin(), pieces->end(), waited), 1);
  EXPECT_LE(pieces->back().instructions, 250U) << "by box again, after a look for room";
}

TEST(SmCost, AnIdleRoundCostsTheSameWithAnyNumberOfGrantedBoxes) {
  const auto pieces = count_steps([] {
    Side receiver{"sm"};
    Counter counter;
    if (!receiver.handlers().set(kTag + 1, btl::bind<&Counter::on_message>(counter, "count"))) ::_exit(3);
    std::vector<std::unique_ptr<Side>> senders;
    for (const std::size_t boxes : {4U, 30U}) {
      while (senders.size() < boxes) {
        senders.push_back(std::make_unique<Side>("sm"));
        btl::Endpoint& route = *senders.back()->connect(receiver);
        for (int i = 0; i < 20; ++i) {
          const std::uint64_t end = counter.count + 1;
          if (senders.back()->module().send_inline(route, kTag + 1, bytes_of(end), {}) != Post::done) ::_exit(4);
          while (counter.count != end) receiver.module().progress(64);
        }
      }
      for (int i = 0; i < 4000; ++i) receiver.module().progress(64);
      if (fast_boxes(receiver.module()).accepted() != boxes) ::_exit(5);
      step_mark();
      receiver.module().progress(64);
      step_mark();
    }
  });
  if (!pieces) GTEST_SKIP() << kNeeds;
  ASSERT_EQ(pieces->size(), 2U);
  EXPECT_EQ((*pieces)[1].instructions, (*pieces)[0].instructions) << "30 boxes, and 4";
}

TEST(SmCost, APutOfAMebibyteResolvesItsRangeOnce) {
  for (const char* mode : {"alone", "cooperative"}) {
    SCOPED_TRACE(mode);
    const auto body = [mode] {
      constexpr std::size_t size = 1U << 20;
      Side target{with(forced(mode))};
      Side initiator{with(forced(mode))};
      btl::Endpoint& route = *initiator.connect(target);
      std::vector<std::byte> region(size);
      const std::vector<std::byte> source(size, std::byte{7});
      const auto handle = target.module().register_memory(region.data(), size, Rights::remote_write);
      if (!handle) ::_exit(3);
      const auto put = [&] {
        test::CountedCompletion done;
        const Post post = initiator.module().put(route, source.data(), nullptr,
                                                 reinterpret_cast<std::uint64_t>(region.data()), *handle, size, done);
        if (post == Post::failed || post == Post::again) ::_exit(4);
        while (post == Post::queued && done.calls == 0) {
          initiator.module().progress(64);
          target.module().progress(64);
        }
      };
      put();  // what the first one sets up
      step_mark();
      put();
      step_mark();
      if (region != source) ::_exit(5);
    };
    const auto pieces = count_steps(body, test::address_of(&RemoteMemory::resolve));
    if (!pieces) GTEST_SKIP() << kNeeds;
    ASSERT_EQ(pieces->size(), 1U);
    EXPECT_EQ(pieces->front().visits, 1U);
  }
}

std::uint64_t system_calls_of_going_to_sleep(bool cores_shared) {
  const auto pieces = count_steps([cores_shared] {
    Side receiver{with(Config{}), cores_shared};
    Side sender{with(Config{}), cores_shared};
    (void)sender.connect(receiver);
    while (receiver.accepted.empty()) receiver.module().progress(64);
    step_mark();
    const bool armed = receiver.module().arm();
    step_mark();
    if (!armed) ::_exit(3);
  });
  return pieces && pieces->size() == 1 ? (*pieces)[0].system_calls : 0;
}

TEST(SmCost, WhereCoresAreSharedGoingToSleepInterruptsNoOtherCore) {
  const std::uint64_t alone = system_calls_of_going_to_sleep(false);
  if (alone == 0) GTEST_SKIP() << kNeeds;
  EXPECT_EQ(alone, 2U) << "the doorbell is read, the senders are fenced";
  EXPECT_EQ(system_calls_of_going_to_sleep(true), 1U) << "the doorbell is read";
}

}  // namespace
}  // namespace opal::btl::sm
