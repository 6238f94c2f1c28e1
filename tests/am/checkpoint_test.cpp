// SPDX-License-Identifier: Apache-2.0
// Checkpoints over every transport: what was posted before is handled, what is posted meanwhile waits, caches are
// empty.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "opal/memory/events/monitor.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

class Checkpoint : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    to_b = *a.context->connect(b().context->address());
    const std::uint64_t word = 0;
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(word), {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().messages == 1; }));
  }
  [[nodiscard]] bool alone() const { return GetParam() == "self"; }
  Side& b() { return alone() ? a : other; }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a.context, *b().context);
  }
  void progress_both(int times) {
    for (; times > 0; --times) {
      a.context->progress();
      b().context->progress();
    }
  }
  void quiesce_both(std::uint64_t round) {
    a.context->quiesce(round);
    if (!alone()) b().context->quiesce(round);
  }
  void resume_both() {
    a.context->resume();
    if (!alone()) b().context->resume();
  }
  /// Once true, a context's quiet() stays true as long as nothing is posted.
  [[nodiscard]] bool both_quiet() {
    return pump_both([&] {
      const bool here = a.context->quiet();
      return b().context->quiet() && here;
    });
  }

  Side a{GetParam()};
  Side other{GetParam()};
  am::Endpoint* to_b = nullptr;
  const std::vector<std::byte> payload = std::vector<std::byte>(1000, std::byte{5});
};
INSTANTIATE_TEST_SUITE_P(Over, Checkpoint, ::testing::ValuesIn(joining_transports(btl::Reach::itself)),
                         [](const auto& info) { return info.param; });

/// What needs a second Context.
class CheckpointOfTwo : public Checkpoint {};
INSTANTIATE_TEST_SUITE_P(Over, CheckpointOfTwo, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(Checkpoint, WhatWasPostedBeforeIsHandledAndWhatComesLaterWaitsForResume) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::size_t before = b().messages;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(to_b->send_or_queue(kTag, {}, payload), Post::done);
    quiesce_both(round);
    EXPECT_EQ(to_b->send_inline(kTag, {}, payload), Post::again);
    EXPECT_FALSE(to_b->alloc(8));
    for (int i = 0; i < 10; ++i) ASSERT_EQ(to_b->send_or_queue(kTag, {}, payload), Post::done);
    ASSERT_TRUE(both_quiet());
    EXPECT_EQ(b().messages, before + 1000) << "all of before, and nothing of after";
    EXPECT_TRUE(a.context->checkpoint());
    EXPECT_TRUE(b().context->checkpoint());
    progress_both(100);
    EXPECT_EQ(b().messages, before + 1000);
    resume_both();
    ASSERT_TRUE(pump_both([&] { return b().messages == before + 1010; }));
    ASSERT_TRUE(pump_both([&] { return to_b->send_inline(kTag, {}, payload) == Post::done; }));
    ASSERT_TRUE(pump_both([&] { return b().messages == before + 1011; }));
  }
}

TEST_P(CheckpointOfTwo, ItIsNotQuietUntilThePeerTakesPart) {
  a.context->quiesce(1);
  for (int i = 0; i < 1000; ++i) {
    a.context->progress();
    b().context->progress();
    ASSERT_FALSE(a.context->quiet());
  }
  EXPECT_EQ(a.context->checkpoint().error().code, Errc::busy);
  b().context->quiesce(1);
  EXPECT_TRUE(both_quiet());
}

TEST_P(CheckpointOfTwo, ARoundThatWasGivenUpDoesNotCountForTheNext) {
  a.context->quiesce(1);
  progress_both(100);  // the marker may be through
  a.context->resume();
  b().context->quiesce(2);
  for (int i = 0; i < 1000; ++i) {
    a.context->progress();
    b().context->progress();
    ASSERT_FALSE(b().context->quiet()) << "the marker of round 1 is not one of round 2";
  }
  a.context->quiesce(2);
  EXPECT_TRUE(both_quiet());
}

TEST_P(Checkpoint, CachesAreEmptiedAndARegistrationInUseIsSaid) {
  std::vector<std::byte> buffer(100'000);
  auto exposed = to_b->expose(buffer.data(), buffer.size(), Rights::all);
  ASSERT_TRUE(exposed);
  quiesce_both(1);
  ASSERT_TRUE(both_quiet());
  const auto refused = a.context->checkpoint();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_EQ(refused.error().detail, 1U);
  exposed->reset();
  EXPECT_TRUE(a.context->checkpoint());
}

TEST_P(CheckpointOfTwo, AHandleOfTheEmptiedCacheIsRefused) {
  if (memory::chosen_monitor()->monitor == nullptr) {
    GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
  }
  std::vector<std::byte> buffer(100'000);
  am::Endpoint* to_a = *b().context->connect(a.context->address());
  auto exposed = to_b->expose(buffer.data(), buffer.size(), Rights::all);
  ASSERT_TRUE(exposed);
  const auto handle = MemoryHandle::from_bytes(exposed->handle());
  exposed->reset();  // the cache keeps it registered
  const std::uint64_t word = 1;
  const auto put = [&](Completion& completion) {
    return to_a->put(&word, reinterpret_cast<std::uint64_t>(buffer.data()), *handle, sizeof word, completion);
  };
  EXPECT_EQ(finish(put, *a.context, *b().context).code, Errc{});
  quiesce_both(1);
  ASSERT_TRUE(both_quiet());
  EXPECT_TRUE(a.context->checkpoint());
  resume_both();
  EXPECT_EQ(finish(put, *a.context, *b().context).code, Errc::invalid_argument);
}

TEST_P(Checkpoint, AContextThatHoldsMessagesSleepsUntilSomethingComes) {
  quiesce_both(1);
  ASSERT_EQ(to_b->send_or_queue(kTag, {}, payload), Post::done);
  ASSERT_TRUE(both_quiet());
  a.context->wait(std::chrono::milliseconds{0});
  const auto sleeps = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const long before = sleeps();
  a.context->wait(std::chrono::milliseconds{200});
  EXPECT_LT(sleeps() - before, 100) << "woke every millisecond";
}

TEST_P(CheckpointOfTwo, APeerThatDiesMeanwhileIsNotWaitedFor) {
  a.context->quiesce(1);
  other.context.reset();
  EXPECT_TRUE(pump([&] { return a.context->quiet(); }, *a.context));
  EXPECT_EQ(a.failed, 1);
  EXPECT_EQ(to_b->send_or_queue(kTag, {}, payload), Post::failed);
}

}  // namespace
}  // namespace opal::test
