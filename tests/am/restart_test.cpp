// SPDX-License-Identifier: Apache-2.0
// Contexts that restart after a checkpoint: transports and addresses are new, endpoints, handlers and what waited are
// not.  The image is a fork: a process with the same memory whose parent, and with it every thread, is gone.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "opal/core/sanitizer.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/in_child.hpp"

#if OPAL_THREAD_SANITIZER
/// Images of sm start a thread of their own.
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_options();  // NOLINT(bugprone-reserved-identifier)
const char* __tsan_default_options() { return "die_after_fork=0"; }              // NOLINT(bugprone-reserved-identifier)
#endif

namespace opal::test {
namespace {

/// Two Contexts over one transport, with a message through so that both know the other.
class Restart : public ::testing::TestWithParam<std::string> {
 protected:
  Restart() { store.set("am_transports", GetParam()); }
  void SetUp() override {
    to_b = *a.context->connect(b().context->address());
    ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().messages == 1; }));
  }
  [[nodiscard]] bool alone() const { return GetParam() == "self"; }
  Side& b() { return alone() ? a : other; }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a.context, *b().context);
  }
  [[nodiscard]] bool checkpoint_both(std::uint64_t round) {
    a.context->quiesce(round);
    if (!alone()) b().context->quiesce(round);
    const bool quiet = pump_both([&] {
      const bool here = a.context->quiet();
      return b().context->quiet() && here;
    });
    return quiet && a.context->checkpoint() && b().context->checkpoint();
  }
  /// Both have new transports, and a has found b again.
  [[nodiscard]] bool restart_both() {
    if (!a.context->restart(store)) return false;
    if (!alone() && !b().context->restart(store)) return false;
    const auto again = a.context->connect(b().context->address());
    return again && *again == to_b;
  }
  void resume_both() {
    a.context->resume();
    b().context->resume();
  }
  /// Puts a word into b's region, by the key that it has now.
  Error put(const am::Region& region, std::uint64_t word) {
    const auto handle = to_b->unpack_key(region.key());
    if (!handle) return handle.error();
    const auto post = [&](Completion& completion) {
      return to_b->put(&word, reinterpret_cast<std::uint64_t>(region.base()), *handle, sizeof word, completion);
    };
    return finish(post, *a.context, *b().context);
  }

  config::Store store;
  Side a{GetParam()};
  Side other{GetParam()};
  am::Endpoint* to_b = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Over, Restart, ::testing::ValuesIn(joining_transports(btl::Reach::itself)),
                         [](const auto& info) { return info.param; });

TEST_P(Restart, OnlyAfterACheckpoint) {
  EXPECT_EQ(a.context->restart(store).error().code, Errc::busy);
  a.context->quiesce(1);
  EXPECT_EQ(a.context->restart(store).error().code, Errc::busy);
}

TEST_P(Restart, WhatWaitedGoesOutInOrderOverTheNewTransports) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::size_t before = b().messages;
    ASSERT_TRUE(checkpoint_both(round));
    for (int i = 0; i < 10; ++i) ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(a.context->restart(store));
    EXPECT_FALSE(to_b->dead());
    EXPECT_EQ(to_b->send_inline(kTag, {}, {}), Post::again);
    EXPECT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done) << "waits, too";
    Flag flag;
    EXPECT_EQ(to_b->put(nullptr, 0, {}, 0, flag), Post::again);
    if (!alone()) {
      ASSERT_TRUE(b().context->restart(store));
    }
    ASSERT_EQ(*a.context->connect(b().context->address()), to_b);
    resume_both();
    ASSERT_TRUE(pump_both([&] { return b().messages == before + 11; }));
    EXPECT_EQ(a.failed + b().failed, 0);
    // And the way back, on the endpoint that b had.
    const std::size_t had = a.messages;
    ASSERT_EQ(b().from->send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return a.messages == had + 1; }));
  }
}

TEST_P(Restart, RegionsAreReachableByTheirNewKeys) {
  std::uint64_t word = 0;
  const auto region = b().context->register_memory(&word, sizeof word, Rights::all);
  ASSERT_TRUE(region);
  ASSERT_EQ(put(*region, 1).code, Errc{});
  ASSERT_TRUE(checkpoint_both(1));
  ASSERT_TRUE(restart_both());
  resume_both();
  ASSERT_EQ(put(*region, 2).code, Errc{});
  EXPECT_EQ(word, 2U);
}

TEST_P(Restart, AnImageGoesOnInAnotherProcess) {
  std::uint64_t word = 0;
  const auto region = b().context->register_memory(&word, sizeof word, Rights::all);
  ASSERT_TRUE(region);
  ASSERT_TRUE(checkpoint_both(1));
  ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);
  const std::size_t before = b().messages;
  const auto image = [&]() -> int {
    if (!restart_both()) return 1;
    resume_both();
    if (!pump_both([&] { return b().messages == before + 1; })) return 2;
    if (put(*region, 7).code != Errc{} || word != 7) return 3;
    if (to_b->send_or_queue(kTag, {}, {}) != Post::done) return 4;
    return pump_both([&] { return b().messages == before + 2; }) ? 0 : 5;
  };
  EXPECT_EQ(in_child(image, 60), 0) << "the step that failed";
  EXPECT_EQ(word, 0U) << "this process's";
}

/// What needs a second Context.
class RestartOfTwo : public Restart {
 protected:
  [[nodiscard]] bool messages_go_both_ways() {
    const std::size_t had_b = other.messages;
    const std::size_t had_a = a.messages;
    am::Endpoint* const to_a = other.from;
    if (to_b->send_or_queue(kTag, {}, {}) != Post::done || to_a->send_or_queue(kTag, {}, {}) != Post::done)
      return false;
    return pump_both([&] { return other.messages == had_b + 1 && a.messages == had_a + 1; });
  }
  /// It makes progress until it knows that a's former transports are no more.
  [[nodiscard]] bool other_sees_the_peer_go() {
    const auto gone = [&] { return other.from->dead() || other.from->attributes().transport == "none"; };
    return pump(gone, *other.context) && !other.from->dead();
  }
};
INSTANTIATE_TEST_SUITE_P(Over, RestartOfTwo, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

/// A transport that holds back messages of a batch.
class RestartInABatch : public RestartOfTwo {};
INSTANTIATE_TEST_SUITE_P(Over, RestartInABatch, ::testing::Values("tcp"), [](const auto& info) { return info.param; });

TEST_P(RestartInABatch, ABatchStaysOpenOverTheNewTransportsAndEnds) {
  a.context->begin_batch();
  ASSERT_TRUE(checkpoint_both(1));
  ASSERT_TRUE(restart_both());
  resume_both();
  ASSERT_TRUE(messages_go_both_ways());
  const std::size_t before = other.messages;
  ASSERT_EQ(to_b->send_inline(kTag, {}, {}), Post::done);
  for (int i = 0; i < 100; ++i) other.context->progress();
  EXPECT_EQ(other.messages, before) << "held back";
  a.context->end_batch();
  ASSERT_TRUE(pump([&] { return other.messages == before + 1; }, *other.context));
  ASSERT_EQ(to_b->send_inline(kTag, {}, {}), Post::done);
  ASSERT_TRUE(pump([&] { return other.messages == before + 2; }, *other.context));
}

TEST_P(RestartOfTwo, WhoeverWasConnectedToMayConnectBack) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(checkpoint_both(round));
    ASSERT_TRUE(a.context->restart(store));
    ASSERT_TRUE(other.context->restart(store));
    am::Endpoint* const to_a = other.from;
    ASSERT_EQ(*other.context->connect(a.context->address()), to_a);
    resume_both();
    EXPECT_TRUE(messages_go_both_ways());
  }
  EXPECT_EQ(a.failed + other.failed, 0);
}

/// What needs a second process.
class RestartOfImages : public RestartOfTwo {};
INSTANTIATE_TEST_SUITE_P(Over, RestartOfImages, ::testing::ValuesIn(joining_transports(btl::Reach::others)),
                         [](const auto& info) { return info.param; });

TEST_P(RestartOfImages, GoOnInProcessesOfTheirOwn) {
  ASSERT_TRUE(checkpoint_both(1));
  ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);
  ASSERT_EQ(other.from->send_or_queue(kTag, {}, {}), Post::done);
  /// Restarts, connects to the first address that comes, and has the message that waited on the other side.
  const auto go_on = [&](Side& own, bool connects, Channel& parent) {
    if (!own.context->restart(store)) return 1;
    parent.send(own.context->address());
    if (connects && !own.context->connect(parent.receive())) return 2;
    own.context->resume();
    if (!pump([&] { return own.messages == (connects ? 1 : 2); }, *own.context)) return 3;
    parent.send("done");
    return parent.expect("end") ? 0 : 4;  // the other one may have to be answered still
  };
  Child image_b{[&](Channel& parent) { return go_on(other, false, parent); }};
  Child image_a{[&](Channel& parent) { return go_on(a, true, parent); }};
  EXPECT_FALSE(image_a.channel().receive().empty());
  image_a.channel().send(image_b.channel().receive());
  EXPECT_TRUE(image_a.channel().expect("done"));
  EXPECT_TRUE(image_b.channel().expect("done"));
  image_a.channel().send("end");
  image_b.channel().send("end");
  EXPECT_EQ(image_a.wait(), 0) << "the step that failed";
  EXPECT_EQ(image_b.wait(), 0) << "the step that failed";
}

TEST_P(RestartOfTwo, BothMayConnect) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(checkpoint_both(round));
    ASSERT_TRUE(a.context->restart(store));
    ASSERT_TRUE(other.context->restart(store));
    ASSERT_EQ(*a.context->connect(other.context->address()), to_b);
    ASSERT_EQ(*other.context->connect(a.context->address()), other.from);
    resume_both();
    EXPECT_TRUE(messages_go_both_ways());
  }
  EXPECT_EQ(a.failed + other.failed, 0);
}

TEST_P(RestartOfTwo, WhoSeesTheOtherGoToRestartGoesOnToo) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(checkpoint_both(round));
    ASSERT_EQ(other.from->send_or_queue(kTag, {}, {}), Post::done);
    const std::size_t had = a.messages;
    ASSERT_TRUE(a.context->restart(store));
    ASSERT_TRUE(other_sees_the_peer_go());
    ASSERT_TRUE(other.context->restart(store));
    ASSERT_EQ(*other.context->connect(a.context->address()), other.from);
    resume_both();
    ASSERT_TRUE(pump_both([&] { return a.messages == had + 1; })) << "what waited";
    EXPECT_TRUE(messages_go_both_ways());
  }
  EXPECT_EQ(a.failed + other.failed, 0);
}

TEST_P(RestartOfTwo, OneRestartsAndTheOtherGoesOn) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(checkpoint_both(round));
    ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_EQ(other.from->send_or_queue(kTag, {}, {}), Post::done);
    const std::size_t had_a = a.messages;
    const std::size_t had_b = other.messages;
    ASSERT_TRUE(a.context->restart(store));
    ASSERT_EQ(*a.context->connect(other.context->address()), to_b);
    // It has to have seen a's old transports go, and the new ones come, before it goes on.
    ASSERT_TRUE(pump_both([&] { return other.connected.size() == round + 1; }));
    resume_both();
    ASSERT_TRUE(pump_both([&] { return a.messages == had_a + 1 && other.messages == had_b + 1; })) << "what waited";
    EXPECT_TRUE(messages_go_both_ways());
  }
  EXPECT_EQ(a.failed + other.failed, 0);
}

TEST_P(RestartOfTwo, WhoNeverComesBackHasFailedWhenTheOthersGoOn) {
  ASSERT_TRUE(checkpoint_both(1));
  ASSERT_EQ(other.from->send_or_queue(kTag, {}, {}), Post::done);
  a.context.reset();
  ASSERT_TRUE(other_sees_the_peer_go());
  EXPECT_EQ(other.failed, 0) << "it might be restarting";
  other.context->resume();
  EXPECT_FALSE(other.context->arm()) << "progress() has to report the failure: an event loop may not sleep";
  ASSERT_TRUE(pump([&] { return other.failed == 1; }, *other.context));
  EXPECT_TRUE(other.from->dead());
  EXPECT_EQ(other.from->send_or_queue(kTag, {}, {}), Post::failed);
}

/// Two Contexts at level `multiple`; threads use the one that receives all the time.
class RestartUnderThreads : public ::testing::TestWithParam<std::string> {
 protected:
  RestartUnderThreads() { store.set("am_transports", GetParam()); }
  ~RestartUnderThreads() override {
    stop = true;
    while (running != 0) b().context->wake_sleepers();
    for (std::thread& thread : threads) thread.join();
  }
  [[nodiscard]] bool alone() const { return GetParam() == "self"; }
  Side& b() { return alone() ? a : other; }

  /// Calls `step` again and again until the end of the fixture: it may use what is there until then.
  void keep_doing(std::function<void()> step) {
    ++running;
    threads.emplace_back([this, step = std::move(step)] {
      while (!stop) step();
      --running;
    });
  }
  [[nodiscard]] bool checkpoint(std::uint64_t round) {
    a.context->quiesce(round);
    if (!alone()) b().context->quiesce(round);
    const bool quiet = pump(
        [&] {
          const bool here = a.context->quiet();
          return b().context->quiet() && here;
        },
        *a.context, *b().context);
    if (!quiet) return false;
    // A thread may be using a cached registration at this very moment.
    const auto empty = [](am::Context& context) { return pump([&] { return bool{context.checkpoint()}; }, context); };
    return empty(*a.context) && empty(*b().context);
  }

  config::Store store;
  Side a{GetParam(), am::ThreadLevel::multiple};
  Side other{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* to_b = nullptr;
  am::Endpoint* to_a = nullptr;
  std::atomic<std::size_t> wanted{1};
  std::atomic<std::size_t> exposed{0};
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  std::vector<std::thread> threads;
};
INSTANTIATE_TEST_SUITE_P(Over, RestartUnderThreads, ::testing::ValuesIn(joining_transports(btl::Reach::itself)),
                         [](const auto& info) { return info.param; });

TEST_P(RestartUnderThreads, WhoSleepsExposesMemoryAndAsksForStatisticsGoesOn) {
  to_b = *a.context->connect(b().context->address());
  to_a = *b().context->connect(a.context->address());
  alignas(64) static std::byte buffer[4096];
  keep_doing([&] {
    const auto arrived = [&] { return stop || b().messages >= wanted; };
    if (b().context->wait_until(arrived, std::chrono::milliseconds{20'000})) std::this_thread::yield();
  });
  keep_doing([&] {
    if (const auto memory = to_a->expose(buffer, sizeof buffer, Rights::all)) ++exposed;
  });
  keep_doing([&] {
    (void)b().context->registration_statistics();
    (void)b().context->transports();
    EXPECT_GE(b().context->fd(), 0);
    std::this_thread::yield();
  });
  for (std::uint64_t round = 1; round <= 2; ++round) {
    const std::size_t exposed_before = exposed;
    ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);
    // From here on only a's side is progressed here: b's sleeper has to wake up by itself, and takes to_a's new route.
    ASSERT_TRUE(pump([&] { return b().messages >= wanted && exposed > exposed_before; }, *a.context));
    ++wanted;
    ASSERT_TRUE(checkpoint(round));
    ASSERT_TRUE(a.context->restart(store));
    if (!alone()) {
      ASSERT_TRUE(b().context->restart(store));
    }
    ASSERT_EQ(*a.context->connect(b().context->address()), to_b);
    a.context->resume();
    b().context->resume();
  }
  EXPECT_EQ(b().messages, 2U);
}

TEST_P(Restart, IsRefusedInsideAHandler) {
  struct InsideHandler {
    void on_message(btl::Delivery&) noexcept { answer = to_string(context->restart(*store).error()); }
    am::Context* context;
    config::Store* store;
    std::string answer{};
  } inside{b().context.get(), &store};
  ASSERT_TRUE(b().context->set_handler(kTag + 1, btl::bind<&InsideHandler::on_message>(inside, "restart")));
  ASSERT_EQ(to_b->send_or_queue(kTag + 1, {}, {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return !inside.answer.empty(); }));
  EXPECT_NE(inside.answer.find("not from inside a handler"), std::string::npos) << inside.answer;
}

}  // namespace
}  // namespace opal::test
