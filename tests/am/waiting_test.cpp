// SPDX-License-Identifier: Apache-2.0
// Waiting: wait(), wait_until(), the one descriptor; and any thread calling anything at level `multiple`.
#include <poll.h>

#include <thread>

#include "opal/core/system/fd.hpp"
#include "tests/am/pair.hpp"
#include "tests/memory/no_free_descriptor.hpp"

namespace opal::test {
namespace {

constexpr std::uint64_t kWord = 1;

class Waiting : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, Waiting, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(Waiting, ASleeperIsWokenByAMessage) {
  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  std::jthread sender{[&] {
    for (int i = 0; i < 100; ++i) {
      while (to_b->send_inline(kTag, bytes_of(kWord), {}) == Post::again) a.context->progress();
      const Deadline pause = Deadline::after(std::chrono::microseconds{200});  // so that the other side sleeps
      while (!pause.expired()) a.context->progress();
    }
    while (b.messages != 100) a.context->progress();
  }};
  EXPECT_TRUE(b.context->wait_until([&] { return b.messages == 100; }, std::chrono::seconds{20}));
}

struct Heard {
  void on_message(btl::Delivery&) noexcept { yes = true; }
  bool yes = false;
};

TEST_P(Waiting, WhoWaitsForOnePeerHearsTheOthersToo) {
  Side receiver{GetParam()};
  Side awaited{GetParam()};
  Side other{GetParam()};
  Heard heard;
  ASSERT_TRUE(receiver.context->set_handler(kTag + 1, btl::bind<&Heard::on_message>(heard, "other")));
  am::Endpoint& by_awaited = **awaited.context->connect(receiver.context->address());
  am::Endpoint& by_other = **other.context->connect(receiver.context->address());
  const auto exchange = [&](std::size_t i) {
    EXPECT_EQ(by_awaited.send_or_queue(kTag, bytes_of(kWord), {}), Post::done);
    return pump([&] { return receiver.messages == i; }, *awaited.context, *receiver.context);
  };
  for (std::size_t i = 1; i <= 40; ++i) ASSERT_TRUE(exchange(i));
  am::Endpoint& from = *receiver.from;
  ASSERT_EQ(by_other.send_or_queue(kTag + 1, bytes_of(kWord), {}), Post::done);
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (!heard.yes && !deadline.expired()) {  // the awaited one is never silent
    ASSERT_EQ(by_awaited.send_or_queue(kTag, bytes_of(kWord), {}), Post::done);
    awaited.context->progress();
    other.context->progress();
    (void)receiver.context->progress_from(from, 1);
  }
  EXPECT_TRUE(heard.yes);
}

TEST_P(Waiting, TimeIsOverWhenNothingComes) {
  Side a{GetParam()};
  const std::uint64_t begin = now_ns();
  EXPECT_EQ(a.context->wait(std::chrono::milliseconds{20}), 0u);
  EXPECT_GE(now_ns() - begin, 19'000'000u);
  EXPECT_FALSE(a.context->wait_until([] { return false; }, std::chrono::milliseconds{5}));
  EXPECT_TRUE(a.context->wait_until([] { return true; }, std::chrono::milliseconds{0}));
}

TEST_P(Waiting, TheDescriptorTellsAnEventLoopOfAMessage) {
  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(kWord), {}), Post::done);  // the first one also connects
  ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));

  for (std::size_t round = 2; round <= 20; ++round) {
    while (!b.context->arm()) b.context->progress();
    pollfd fd{b.context->fd(), POLLIN, 0};
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(kWord), {}), Post::done);
    a.context->progress();
    ASSERT_EQ(::poll(&fd, 1, 20000), 1) << "armed, so the message must make it readable";
    ASSERT_TRUE(pump([&] { return b.messages == round; }, *a.context, *b.context));
  }
}

TEST_P(Waiting, AtLevelMultipleEverySleeperSeesWhatAnothersProgressBrought) {
  Side a{GetParam(), am::ThreadLevel::multiple};
  Side b{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  std::atomic<int> content{0};
  std::vector<std::jthread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      if (b.context->wait_until([&] { return b.messages == 200; }, std::chrono::seconds{20})) ++content;
    });
  }
  for (int i = 0; i < 200; ++i) ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(kWord), {}), Post::done);
  EXPECT_TRUE(a.context->wait_until([&] { return b.messages == 200; }, std::chrono::milliseconds{0}) ||
              pump([&] { return b.messages == 200; }, *a.context));
  sleepers.clear();
  EXPECT_EQ(content, 4);
}

TEST_P(Waiting, AtLevelMultipleAThreadThatNoOtherCanWakeForLackOfADescriptorLooksFromTimeToTime) {
  Side side{GetParam(), am::ThreadLevel::multiple};
  const auto lowest = static_cast<rlim_t>(Fd{::dup(STDOUT_FILENO)}.get());
  const NoFreeDescriptor none{lowest};
  std::thread{[&] {
    const Deadline deadline = Deadline::after(std::chrono::seconds{20});
    for (int i = 0; i < 20 && !deadline.expired(); ++i) side.context->wait(std::chrono::seconds{20});
    EXPECT_FALSE(deadline.expired());
  }}.join();
}

TEST_P(Waiting, AtLevelMultipleAThreadThatFoundNoFreeDescriptorAtFirstIsWokenByOthersLater) {
  Side side{GetParam(), am::ThreadLevel::multiple};
  std::atomic<bool> over{false};
  const auto wait = [&] {
    {
      const NoFreeDescriptor none;
      side.context->wait(std::chrono::milliseconds{1});
    }
    side.context->wait_until([&] { return over.load(); }, std::chrono::seconds{60});
  };
  EXPECT_TRUE(is_woken_by(*side.context, wait, [&] {
    over = true;
    side.context->wake_sleepers();
  }));
}

TEST_P(Waiting, WhoHoldsTheLockMakesProgressThoughAnotherThreadWaitsForItInProgress) {
  Side a{GetParam(), am::ThreadLevel::multiple};
  Side b{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(kWord), {}), Post::done);  // the first one also connects
  ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));

  std::atomic<bool> stop{false};
  std::jthread other{[&] {
    while (!stop) b.context->progress();
  }};
  for (std::size_t sent = 2; sent <= 20; ++sent) {
    const am::Lock::Guard guard{b.context->lock()};
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(kWord), {}), Post::done);
    const Deadline deadline = Deadline::after(std::chrono::seconds{20});
    while (b.messages != sent && !deadline.expired()) {
      a.context->progress();
      b.context->progress_locked();
    }
    EXPECT_EQ(b.messages, sent) << "the other thread is in progress() and cannot have the lock";
  }
  stop = true;
}

TEST_P(Waiting, AtLevelMultipleAThreadThatFindsAnotherInProgressReturnsAtOnce) {
  Side a{GetParam(), am::ThreadLevel::multiple};
  Side b{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  std::atomic<bool> inside{false};
  std::atomic<bool> returned{false};
  std::atomic<std::size_t> found{1};
  // The handler stays in b's progress() until the other thread is back from its own.
  struct Gate {
    void on_message(btl::Delivery&) noexcept {
      inside = true;
      const Deadline deadline = Deadline::after(std::chrono::seconds{20});
      while (!returned && !deadline.expired()) std::this_thread::yield();
      in_time = returned;
    }
    std::atomic<bool>& inside;
    std::atomic<bool>& returned;
    bool in_time = false;
  } gate{inside, returned};
  ASSERT_TRUE(b.context->set_handler(kTag + 1, btl::bind<&Gate::on_message>(gate, "gate")));
  ASSERT_EQ(to_b->send_or_queue(kTag + 1, bytes_of(kWord), {}), Post::done);
  std::jthread other{[&] {
    const Deadline deadline = Deadline::after(std::chrono::seconds{20});
    while (!inside && !deadline.expired()) std::this_thread::yield();
    found = b.context->progress();
    returned = true;
  }};
  ASSERT_TRUE(pump([&] { return inside.load(); }, *a.context, *b.context));
  other.join();
  EXPECT_TRUE(gate.in_time) << "progress() waited for another thread's";
  EXPECT_EQ(found, 0U);
}

TEST_P(Waiting, AtLevelMultipleAnyThreadCallsAnything) {
  Side a{GetParam(), am::ThreadLevel::multiple};
  Side b{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  std::vector<std::uint64_t> memory(4);
  auto region = b.context->register_memory(memory.data(), memory.size() * 8, Rights::all);
  ASSERT_TRUE(region);
  const MemoryHandle key = *to_b->unpack_key(region->key());

  constexpr std::size_t kRounds = 200;
  std::atomic<bool> over{false};
  std::jthread server{[&] {
    while (!over) b.context->wait(std::chrono::milliseconds{1});
  }};
  std::vector<std::jthread> clients;
  for (std::size_t me = 0; me < 4; ++me) {
    clients.emplace_back([&, me] {
      const auto where = reinterpret_cast<std::uint64_t>(&memory[me]);
      for (std::uint64_t i = 1; i <= kRounds; ++i) {
        while (to_b->send_inline(kTag, bytes_of(i), {}) == Post::again) a.context->progress();
        struct Signal : Completion {
          bool ended = false;  // under the Context's lock
        } signal;
        signal.fn = [](Completion& self) noexcept { static_cast<Signal&>(self).ended = true; };
        Post post = Post::again;
        while ((post = to_b->put(&i, where, key, 8, signal)) == Post::again) a.context->progress();
        if (post == Post::queued) {
          EXPECT_TRUE(a.context->wait_until([&] { return signal.ended; }, std::chrono::seconds{20}));
        }
        EXPECT_TRUE(signal.ok());
        EXPECT_FALSE(to_b->dead());
        if (i % 50 == 0) {
          std::uint64_t local = 0;
          EXPECT_TRUE(a.context->register_memory(&local, sizeof local, Rights::all));
        }
      }
    });
  }
  clients.clear();
  EXPECT_TRUE(pump([&] { return b.messages == 4 * kRounds; }, *a.context));
  over = true;
  server.join();
  EXPECT_EQ(memory, std::vector<std::uint64_t>(4, kRounds));
}

}  // namespace
}  // namespace opal::test
