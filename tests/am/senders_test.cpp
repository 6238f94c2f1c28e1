// SPDX-License-Identifier: Apache-2.0
// Threads that send at level `multiple`: beside the holder of the Context's lock, checkpoints, and the end of their
// peer.
#include <thread>

#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

constexpr std::uint64_t kWord = 1;

/// Threads of `a` that send to `b` until they are told to stop, or the peer is gone.
class Senders : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int kThreads = 3;
  void SetUp() override {
    to_b = *a.context->connect(b.context->address());
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([this] { send(); });
  }
  void TearDown() override { stop = true; }
  void send() {
    while (!stop) {
      switch (to_b->send_inline(kTag, bytes_of(kWord), {})) {
        case Post::done: ++sent; break;
        case Post::failed: ++failed; return;
        default: std::this_thread::yield(); break;
      }
    }
  }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a.context, *b.context);
  }

  Side a{GetParam(), am::ThreadLevel::multiple};
  Side b{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* to_b = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> sent{0};
  std::atomic<int> failed{0};
  std::vector<std::jthread> threads;
};
INSTANTIATE_TEST_SUITE_P(Over, Senders, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(Senders, NothingOfTheirsGoesOutBetweenQuietAndResume) {
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const std::size_t before = b.messages;
    ASSERT_TRUE(pump_both([&] { return b.messages > before + 100; }));
    a.context->quiesce(round);
    b.context->quiesce(round);
    ASSERT_TRUE(pump_both([&] {
      const bool here = a.context->quiet();
      return b.context->quiet() && here;
    }));
    EXPECT_TRUE(pump_both([&] { return b.messages == sent; })) << "all of before, and nothing of after";
    EXPECT_TRUE(a.context->checkpoint());
    EXPECT_TRUE(b.context->checkpoint());
    a.context->resume();
    b.context->resume();
  }
}

TEST_P(Senders, EachLearnsOfItsPeersEnd) {
  ASSERT_TRUE(pump_both([&] { return b.messages > 1000; }));
  b.context.reset();
  EXPECT_TRUE(pump([&] { return failed == kThreads && a.failed == 1; }, *a.context));
}

TEST(SendersOverSharedMemory, DoNotWaitForWhoHasTheContext) {
  Side a{"sm", am::ThreadLevel::multiple};
  Side b{"sm", am::ThreadLevel::multiple};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  for (std::size_t i = 1; i <= 100; ++i) {  // until there is a box
    ASSERT_EQ(to_b->send_inline(kTag, bytes_of(kWord), {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.messages == i; }, *b.context));
  }
  std::atomic<int> sent{0};
  std::jthread sender;
  {
    const am::Lock::Guard guard{a.context->lock()};
    sender = std::jthread{[&] {
      while (sent < 50 && to_b->send_inline(kTag, bytes_of(kWord), {}) == Post::done) ++sent;
    }};
    EXPECT_TRUE(pump([&] { return b.messages == 150; }, *b.context));
  }
  sender.join();
  EXPECT_EQ(sent, 50);
}

}  // namespace
}  // namespace opal::test
