// SPDX-License-Identifier: Apache-2.0
// The defects that are known of Open MPI's vader, the ancestor of this transport, one test each; those that other files
// test anyway are in the table of docs/design/sm.md ("Known defects").
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "opal/am/context.hpp"
#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

config::Store with(std::initializer_list<std::array<std::string_view, 2>> settings) {
  config::Store store;
  for (const auto& [name, value] : settings) store.set(name, value);
  return store;
}

/// A Context that any thread may use, whose messages say which thread sent them and how many it had sent before.
struct Crowd {
  static constexpr std::uint32_t kThreads = 3;
  struct Stamp {
    std::uint32_t thread;
    std::uint32_t number;
  };

  explicit Crowd(const config::Store& settings) {
    config::Store store = settings;
    store.set("am_transports", "sm");
    context = std::move(am::Context::open(store, {.threads = am::ThreadLevel::multiple}).value());
    EXPECT_TRUE(context->set_handler(kTag, btl::bind<&Crowd::on_message>(*this, "stamped")));
  }
  void on_message(Delivery& delivery) noexcept {
    Stamp stamp{};
    if (!read_object(delivery.data.first(sizeof stamp), stamp) || stamp.thread >= kThreads ||
        stamp.number != next[stamp.thread]++) {
      ++wrong;
    }
    ++heard;
  }
  /// What one thread does: `count` messages, short ones for the box, some that only the FIFO takes.
  void talk(am::Endpoint& to, std::uint32_t thread, std::uint32_t count) const {
    const std::vector<std::byte> rest(3000);
    for (std::uint32_t number = 0; number < count;) {
      const std::size_t size = number % 7 == 0 ? rest.size() : number % 40;
      const Post post = to.send_inline(kTag, bytes_of(Stamp{thread, number}), ByteSpan{rest}.first(size));
      ASSERT_NE(post, Post::failed);
      if (post == Post::done) ++number;
      if (post == Post::again) context->progress();
    }
  }

  std::array<std::uint32_t, kThreads> next{};  // under the Context's lock, as `wrong`
  std::uint32_t wrong = 0;
  std::atomic<std::uint32_t> heard{0};
  std::unique_ptr<am::Context> context;
};

/// btl_sm_fbox.h takes the sequence number after the endpoint's lock has been released: two threads may publish theirs
/// in the wrong order, and the receiver waits for ever.
TEST(VaderDefects, ThreadsThatSendToOnePeerNeverPublishEachOthersSequenceNumbers) {
  constexpr std::uint32_t kCount = 20'000;
  Crowd a{{}};
  Crowd b{{}};
  am::Endpoint& to_b = **a.context->connect(b.context->address());
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < Crowd::kThreads; ++i) threads.emplace_back([&, i] { a.talk(to_b, i, kCount); });
    const Deadline deadline = Deadline::after(std::chrono::seconds{120});
    while (b.heard != Crowd::kThreads * kCount && !deadline.expired()) b.context->progress();
  }
  EXPECT_EQ(b.heard, Crowd::kThreads * kCount);
  EXPECT_EQ(b.wrong, 0U);
  EXPECT_FALSE(to_b.dead());
}

/// send takes the lock of the pending fragments and then the component's, progress the other way round.
TEST(VaderDefects, SendingWithoutRoomAndMakingProgressInManyThreadsNeverWaitForEachOther) {
  constexpr std::uint32_t kCount = 3000;
  const config::Store tight = with({{"btl_sm_fifo_slots", "16"}, {"btl_sm_fbox_size", "1K"}});
  Crowd a{tight};
  Crowd b{tight};
  am::Endpoint& to_b = **a.context->connect(b.context->address());
  am::Endpoint& to_a = **b.context->connect(a.context->address());
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < Crowd::kThreads; ++i) {
      threads.emplace_back([&, i] { a.talk(to_b, i, kCount); });
      threads.emplace_back([&, i] { b.talk(to_a, i, kCount); });
    }
    const Deadline deadline = Deadline::after(std::chrono::seconds{120});
    while ((a.heard != Crowd::kThreads * kCount || b.heard != Crowd::kThreads * kCount) && !deadline.expired()) {
      a.context->progress();
      b.context->progress();
    }
  }
  EXPECT_EQ(a.heard, Crowd::kThreads * kCount);
  EXPECT_EQ(b.heard, Crowd::kThreads * kCount);
  EXPECT_EQ(a.wrong + b.wrong, 0U);
}

/// At add_procs one peer without single copy turns put and get off for all peers.
TEST(VaderDefects, APeerWithoutSingleCopyTakesItFromNobodyElse) {
  Side a{"sm"};
  Side with_it{"sm"};
  btl::Endpoint* const there = a.connect(with_it);
  if (!there->one_sided()) GTEST_SKIP() << "no single copy here: " << there->describe();
  Side stubborn{"sm", with({{"btl_sm_single_copy", "none"}})};
  btl::Endpoint* const refused = stubborn.connect(a);
  EXPECT_FALSE(refused->one_sided());
  EXPECT_TRUE(there->one_sided());
  const auto bytes = pattern(10'000, 1);
  std::vector<std::byte> memory(bytes.size());
  const auto handle = *with_it.module().register_memory(memory.data(), memory.size(), Rights::all);
  CountedCompletion put;
  EXPECT_EQ(a.module().put(*there, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(memory.data()), handle,
                           bytes.size(), put),
            Post::done);
  EXPECT_EQ(memory, bytes);
}

/// The receiver's count of boxes it may still give is not raised again when it has gone below zero, and the boxes of
/// peers that have gone are lost.
TEST(VaderDefects, BoxesOfPeersThatCameAndWentAreAllThereAgain) {
  Side receiver{"sm", with({{"btl_sm_fbox_max", "2"}})};
  auto& module = static_cast<Module&>(receiver.module());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Side>> senders;
    for (int i = 0; i < 4; ++i) {  // two of them are refused
      senders.push_back(std::make_unique<Side>("sm"));
      btl::Endpoint& route = *senders.back()->connect(receiver);
      for (int j = 0; j < 40; ++j) {
        ASSERT_EQ(test::send(route, pattern(8, 1), {}, *senders.back(), receiver), Post::done);
        receiver.module().progress(1);
      }
    }
    ASSERT_EQ(fast_boxes(module).accepted(), 2U) << "round " << round;
    receiver.failures.clear();
    senders.clear();
    ASSERT_TRUE(pump([&] { return receiver.failures.size() == 4; }, receiver));
    for (const test::Failure& failure : receiver.failures) receiver.module().disconnect(*failure.endpoint);
    ASSERT_EQ(fast_boxes(module).accepted(), 0U);
  }
}

/// A box is granted when the number of sends equals the threshold, and only then: who was refused never asks again; and
/// an idle box is never taken back, so the first talkers keep theirs for life.
TEST(VaderDefects, WhoTalksLaterGetsTheBoxOfWhoHasFallenSilent) {
  Side receiver{"sm", with({{"btl_sm_fbox_max", "1"}})};
  Side first{"sm"};
  Side later{"sm"};
  btl::Endpoint& early_route = *first.connect(receiver);
  btl::Endpoint& late_route = *later.connect(receiver);
  const auto talk = [&](btl::Endpoint& route, Side& sender) {
    return pump(
        [&] {
          (void)sender.module().send_inline(route, kTag, pattern(8, 1), {});
          receiver.module().progress(64);
          return has_fast_box(route);
        },
        sender);
  };
  ASSERT_TRUE(talk(early_route, first));
  ASSERT_TRUE(talk(late_route, later)) << "it has been refused at first";
  ASSERT_TRUE(talk(early_route, first)) << "and back again";
}

}  // namespace
}  // namespace opal::btl::sm
