// SPDX-License-Identifier: Apache-2.0
// A program that forks, over every transport: whatever the child does with its copy of a Context, the parent's traffic
// goes on; and the child may open a Context of its own.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/am/pair.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/in_child.hpp"

namespace opal::test {
namespace {

/// The status of a forked child that runs `what` and then ends as a program does that returns from main().
int returns_from_main(const std::function<int()>& what) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    std::exit(what());  // NOLINT(concurrency-mt-unsafe): static destructors and exit handlers are the point
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Two connected Contexts; for `self` both names mean the same one.
class Fork : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    to_b = *a->context->connect(b().context->address());
    ASSERT_TRUE(messages_go_both_ways(1));
    to_a = b().from;
  }
  [[nodiscard]] bool alone() const { return GetParam() == "self"; }
  Side& b() { return alone() ? *a : *other; }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a->context, *b().context);
  }
  [[nodiscard]] bool messages_go_both_ways(std::size_t count) {
    const std::size_t had_b = b().messages;
    const std::size_t had_a = a->messages;
    for (std::size_t i = 0; i < count; ++i) {
      if (to_b->send_or_queue(kTag, {}, {}) != Post::done) return false;
    }
    if (!pump_both([&] { return b().messages == had_b + count; })) return false;
    if (alone()) return true;
    for (std::size_t i = 0; i < count; ++i) {
      if ((to_a != nullptr ? to_a : b().from)->send_or_queue(kTag, {}, {}) != Post::done) return false;
    }
    return pump_both([&] { return a->messages == had_a + count; });
  }
  void expect_undisturbed() {
    EXPECT_TRUE(messages_go_both_ways(200));
    EXPECT_FALSE(to_b->dead());
    EXPECT_FALSE(to_a->dead());
    Side late{GetParam()};  // whoever connects now finds the listeners as they were
    if (alone()) return;
    am::Endpoint* const to_late = *late.context->connect(a->context->address());
    const std::size_t had = a->messages;
    ASSERT_EQ(to_late->send_or_queue(kTag, {}, {}), Post::done);
    EXPECT_TRUE(pump([&] { return a->messages == had + 1; }, *a->context, *late.context));
  }

  std::unique_ptr<Side> a = std::make_unique<Side>(GetParam());
  std::unique_ptr<Side> other = std::make_unique<Side>(GetParam());
  am::Endpoint* to_b = nullptr;
  am::Endpoint* to_a = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Over, Fork, ::testing::ValuesIn(joining_transports(btl::Reach::itself)),
                         [](const auto& info) { return info.param; });

TEST_P(Fork, AChildThatDestroysItsContextsLeavesTheParentsTrafficUntouched) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(to_b->send_or_queue(kTag, {}, {}), Post::done);  // under way meanwhile
    const std::size_t had = b().messages;
    EXPECT_EQ(returns_from_main([&] {
                a.reset();
                other.reset();
                return 0;
              }),
              0);
    ASSERT_TRUE(pump_both([&] { return b().messages == had + 1; }));
    expect_undisturbed();
  }
}

TEST_P(Fork, AChildWhoseStaticDestructorsEndTheContextsLeavesTheParentsTrafficUntouched) {
  EXPECT_EQ(returns_from_main([&] {
              static std::unique_ptr<Side> first;
              static std::unique_ptr<Side> second;
              first = std::move(a);
              second = std::move(other);
              return 0;
            }),
            0);
  expect_undisturbed();
}

TEST_P(Fork, ATransferThatIsUnderWayIsNotCutShortByAChild) {
  std::vector<std::uint64_t> memory(std::size_t{4} << 20, 1);
  std::vector<std::uint64_t> here(memory.size(), 2);
  const std::size_t size = memory.size() * sizeof(std::uint64_t);
  const auto region = b().context->register_memory(memory.data(), size, Rights::all);
  ASSERT_TRUE(region);
  const MemoryHandle key = *to_b->unpack_key(region->key());
  const auto where = reinterpret_cast<std::uint64_t>(memory.data());
  for (const bool is_put : {false, true}) {
    std::fill(here.begin(), here.end(), is_put ? 4 : 2);
    std::fill(memory.begin(), memory.end(), 3);
    Flag flag;
    Post post = Post::again;
    ASSERT_TRUE(pump_both([&] {
      post = is_put ? to_b->put(here.data(), where, key, size, flag) : to_b->get(here.data(), where, key, size, flag);
      return post != Post::again;
    }));
    ASSERT_NE(post, Post::failed);
    for (int i = 0; i < 3 && post == Post::queued && flag.calls == 0; ++i) {
      EXPECT_EQ(returns_from_main([&] {
                  const int before = flag.calls;
                  a.reset();
                  other.reset();
                  return flag.calls - before;  // no completion runs in the child
                }),
                0);
      a->context->progress();
      b().context->progress();
    }
    if (post == Post::queued) {
      ASSERT_TRUE(pump_both([&] { return flag.calls == 1; }));
    }
    EXPECT_TRUE(flag.ok()) << to_string(flag.error);
    EXPECT_EQ(here, memory);
    EXPECT_EQ(here.front(), is_put ? 4U : 3U);
    EXPECT_EQ(memory.back(), is_put ? 4U : 3U);
  }
}

TEST_P(Fork, WhatAChildAsksOfItsParentsContextFailsOrDoesNothing) {
  std::uint64_t word = 0;
  const auto region = b().context->register_memory(&word, sizeof word, Rights::all);
  ASSERT_TRUE(region);
  const MemoryHandle key = *to_b->unpack_key(region->key());
  const auto child = [&]() -> int {
    am::Context& context = *a->context;
    if (!context.inherited()) return 1;
    const auto refused = [](const auto& result) { return !result && result.error().code == Errc::not_supported; };
    if (!refused(context.connect(b().context->address()))) return 2;
    if (!refused(context.connect_to("127.0.0.1:1", std::chrono::milliseconds{0}))) return 3;
    if (!refused(context.listen("127.0.0.1:0"))) return 4;
    if (!refused(context.register_memory(&word, sizeof word, Rights::all))) return 5;
    if (!to_b->dead() || to_b->error().code != Errc::not_supported) return 6;
    if (to_b->send_inline(kTag, {}, {}) != Post::failed) return 7;
    if (to_b->send_or_queue(kTag, {}, {}) != Post::failed) return 8;
    if (to_b->alloc(8)) return 9;
    Flag flag;
    const auto where = reinterpret_cast<std::uint64_t>(&word);
    if (to_b->put(&word, where, key, sizeof word, flag) != Post::failed) return 10;
    if (flag.error.code != Errc::not_supported) return 11;
    if (to_b->get(&word, where, key, sizeof word, flag) != Post::failed) return 12;
    if (context.flush(flag) != Post::failed) return 13;
    if (!refused(to_b->expose(&word, sizeof word, Rights::all))) return 14;
    if (context.progress() != 0 || context.wait(std::chrono::milliseconds{-1}) != 0) return 15;
    if (context.wait_until([] { return false; }, std::chrono::milliseconds{-1})) return 16;
    context.disconnect(*to_b);
    (void)context.arm();
    context.quiesce(1);
    if (context.quiet()) return 17;
    return 0;
  };
  EXPECT_EQ(returns_from_main(child), 0) << "the step that failed";
  EXPECT_FALSE(a->context->inherited());
  expect_undisturbed();
}

/// Between processes.
class ForkedProcesses : public Fork {};
INSTANTIATE_TEST_SUITE_P(Over, ForkedProcesses, ::testing::ValuesIn(joining_transports(btl::Reach::others)),
                         [](const auto& info) { return info.param; });

TEST_P(ForkedProcesses, AChildOpensAContextOfItsOwn) {
  Child child{[&](Channel& parent) {
    Side own{GetParam()};
    am::Endpoint* const to_parent = *own.context->connect(other->context->address());
    a.reset();
    for (int i = 0; i < 100; ++i) {
      if (to_parent->send_or_queue(kTag, {}, {}) != Post::done) return 1;
    }
    while (!parent.ready()) own.context->wait(std::chrono::milliseconds{1});
    return parent.expect("stop") ? 0 : 2;
  }};
  const std::size_t had = other->messages;
  EXPECT_TRUE(pump_both([&] { return other->messages == had + 100; }));
  EXPECT_EQ(other->connected.size(), 2U);
  EXPECT_TRUE(messages_go_both_ways(200));
  child.channel().send("stop");
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(ForkedProcesses, ADeathIsNoticedThoughAChildOfTheDeadLivesOn) {
  Child peer{[&](Channel& parent) {
    Side own{GetParam()};
    am::Endpoint* const to_parent = *own.context->connect(other->context->address());
    if (to_parent->send_or_queue(kTag, {}, {}) != Post::done) return 1;
    while (!parent.ready()) own.context->wait(std::chrono::milliseconds{1});
    if (!parent.expect("fork")) return 2;
    const pid_t heir = ::fork();
    if (heir == 0) {
      ::alarm(120);
      for (;;) ::pause();
    }
    parent.send(bytes_of(heir));
    while (!parent.ready()) own.context->wait(std::chrono::milliseconds{1});
    return 0;
  }};
  ASSERT_TRUE(pump_both([&] { return other->connected.size() == 2; }));
  peer.channel().send("fork");
  pid_t heir = 0;
  ASSERT_TRUE(read_object(ByteSpan{peer.channel().receive()}, heir));
  peer.kill();
  ASSERT_TRUE(peer.wait());
  EXPECT_TRUE(pump_both([&] { return other->failed == 1; }));
  ::kill(heir, SIGKILL);
}

/// At level `multiple` threads wake each other.
TEST(ForkedSleepers, AChildThatSleepsTakesNoWakeUpFromTheThreadThatForked) {
  const std::string transport = joining_transports(btl::Reach::itself).front();
  Side side{transport, am::ThreadLevel::multiple};
  std::atomic<int> shown{0};
  std::atomic<int> seen{0};
  std::jthread sleeper{[&] {
    side.context->wait(std::chrono::milliseconds{1});  // from here on the thread has what others wake it by
    Child child{[&](Channel& parent) {
      Side own{transport, am::ThreadLevel::multiple};
      while (!parent.ready()) own.context->wait(std::chrono::milliseconds{1});
      return 0;
    }};
    const auto over = [&] {
      seen = shown.load();
      return seen < 0;
    };
    EXPECT_TRUE(side.context->wait_until(over, std::chrono::seconds{60}));
    child.channel().send("stop");
    EXPECT_EQ(child.wait(), 0);
  }};
  const Deadline deadline = Deadline::after(std::chrono::seconds{60});
  for (int i = 1; i <= 1000 && !deadline.expired(); ++i) {
    shown = i;
    side.context->wake_sleepers();
    // Once it has looked it may be about to sleep; a wake-up that is lost there is lost for good.
    const Deadline timeout = Deadline::after(std::chrono::seconds{10});
    while (seen != i && !timeout.expired()) std::this_thread::yield();
    ASSERT_TRUE(seen == i || i == 1) << "wake-up " << i << " was lost";
    if (seen != i) --i;  // it does not wait yet
  }
  shown = -1;
  side.context->wake_sleepers();
}

}  // namespace
}  // namespace opal::test
