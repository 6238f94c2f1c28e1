// SPDX-License-Identifier: Apache-2.0
// The counter and the queue beside the completion callback.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "opal/am/completion_counter.hpp"
#include "opal/am/completion_queue.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

using namespace std::chrono_literals;

class Completions : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    to_b = *a.context->connect(b.context->address());
    region = *b.context->register_memory(memory.data(), memory.size() * sizeof memory[0], Rights::all);
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(std::uint64_t{0}), {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));
    handle = *to_b->unpack_key(region.key());
    other_side = std::thread{[this] {
      while (!stop) b.context->progress();
    }};
  }
  void TearDown() override {
    stop = true;
    if (other_side.joinable()) other_side.join();
  }
  [[nodiscard]] AtomicRequest add_one(std::size_t index) const {
    return {AtomicOp::add, AtomicType::u64, reinterpret_cast<std::uint64_t>(&memory[index]), &handle, 1};
  }
  /// Shared memory orders this load behind the other side's atomics; ThreadSanitizer does not see that.
  [[nodiscard]] std::uint64_t value(std::size_t index) { return std::atomic_ref{memory[index]}.load(); }
  [[nodiscard]] AtomicRequest outside() const { return add_one(memory.size()); }

  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(16);
  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = nullptr;
  am::Region region;
  MemoryHandle handle;
  std::atomic<bool> stop{false};
  std::thread other_side;
};
INSTANTIATE_TEST_SUITE_P(Over, Completions, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(Completions, ACounterCountsWhatIsDoneAtOnceAndWhatIsQueued) {
  am::CompletionCounter counter{*a.context};
  for (int i = 0; i < 2000; ++i) ASSERT_NE(counter.count(to_b->atomic_or_queue(add_one(3), counter)), Post::failed);
  EXPECT_TRUE(counter.wait_for(2000, 20s));
  EXPECT_EQ(counter.ended(), 2000u);
  EXPECT_EQ(counter.failures(), 0u);
  EXPECT_EQ(counter.first_error().code, Errc{});
  EXPECT_EQ(value(3), 2000u);
  const auto more = counter.wait_for(2001, 1ms);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::timed_out);
}

TEST_P(Completions, ACounterKeepsTheFirstError) {
  am::CompletionCounter counter{*a.context};
  (void)counter.count(to_b->atomic_or_queue(add_one(1), counter));
  (void)counter.count(to_b->atomic_or_queue(outside(), counter));
  AtomicRequest unknown = add_one(2);
  unknown.type = AtomicType::f64;
  unknown.op = AtomicOp::bit_or;
  (void)counter.count(to_b->atomic_or_queue(unknown, counter));
  (void)counter.count(to_b->atomic_or_queue(add_one(1), counter));
  const auto all = counter.wait_for(4, 20s);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, counter.first_error().code);
  EXPECT_EQ(counter.failures(), 2u);
  EXPECT_EQ(value(1), 2u);
}

TEST_P(Completions, AQueueHasOneEntryForEachOperationThatWasAccepted) {
  am::CompletionQueue queue{*a.context, 8};
  std::array<int, 8> requests{};
  for (int& request : requests) {
    EXPECT_EQ(queue.post(&request, [&](Completion& end) { return to_b->atomic_or_queue(add_one(5), end); }),
              Post::queued);
  }
  int none = 0;
  EXPECT_EQ(queue.post(&none, [&](Completion& end) { return to_b->atomic_or_queue(add_one(5), end); }), Post::again)
      << "it is full";
  std::set<void*> seen;
  std::array<am::CompletionQueue::Entry, 3> entries{};
  while (seen.size() < requests.size()) {
    const std::size_t count = queue.wait(entries, 20s);
    ASSERT_NE(count, 0u);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(entries[i].error.code, Errc{});
      EXPECT_TRUE(seen.insert(entries[i].user).second);
    }
  }
  EXPECT_EQ(value(5), 8u);
  EXPECT_EQ(queue.poll(entries), 0u);
  EXPECT_EQ(queue.wait(entries, 1ms), 0u);

  EXPECT_EQ(queue.post(&none, [&](Completion& end) { return to_b->atomic_or_queue(outside(), end); }), Post::queued);
  ASSERT_EQ(queue.wait(entries, 20s), 1u);
  EXPECT_EQ(entries[0].user, &none);
  EXPECT_EQ(entries[0].error.code, Errc::invalid_argument);
  EXPECT_EQ(queue.post(&none, [&](Completion&) { return Post::again; }), Post::again);
  EXPECT_EQ(queue.poll(entries), 0u) << "nothing was posted";
}

TEST_P(Completions, AThreadThatSleepsHearsThatAnotherThreadsOperationWasDoneAtOnce) {
  Side many{GetParam(), am::ThreadLevel::multiple};
  am::CompletionCounter counter{*many.context};
  const auto count = [&] { (void)counter.wait_for(1, -1ms); };
  EXPECT_TRUE(is_woken_by(*many.context, count, [&] { EXPECT_EQ(counter.count(Post::done), Post::done); }));

  am::CompletionQueue queue{*many.context, 1};
  std::array<am::CompletionQueue::Entry, 1> entry{};
  const auto poll = [&] { (void)queue.wait(entry, -1ms); };
  EXPECT_TRUE(is_woken_by(*many.context, poll, [&] {
    EXPECT_EQ(queue.post(&queue, [](Completion&) { return Post::done; }), Post::queued);
  }));
  EXPECT_EQ(entry[0].user, &queue);
}

}  // namespace
}  // namespace opal::test
