// SPDX-License-Identifier: Apache-2.0
// What the verbs transport asks of its device, counted over the double (device_double.hpp): doorbells, completions and
// memory per message and per peer.  Counts, not times: a real device charges for each of them.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/verbs/module.hpp"
#include "opal/core/system/mapping.hpp"
#include "tests/btl/verbs/device_double.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::verbs {
namespace {

using test::Side;
using test::verbs_double::Counts;
using test::verbs_double::counts;

Result<std::unique_ptr<btl::Module>> open(const ModuleParameters& parameters) {
  OPAL_TRY_ASSIGN(auto module, Module::open(parameters, Config{}, 0));
  return std::unique_ptr<btl::Module>{std::move(module)};
}

class VerbsDeviceUse : public ::testing::Test {
 protected:
  void SetUp() override {
    to_b_ = a_.connect(b_);
    ASSERT_NE(to_b_, nullptr);
    send(kWarmUp);  // the connection is made and the window has grown
  }

  /// Posts `count` messages of `size` bytes in batches, as many each time as are taken, and waits until all have
  /// arrived.
  void send(std::size_t count, std::size_t size = 8) {
    const std::size_t before = b_.received.size();
    const std::vector<std::byte> bytes = test::pattern(size, 1);
    std::size_t sent = 0;
    const auto post_some = [&] {
      a_.module().begin_batch();
      while (sent < count && a_.module().send_inline(*to_b_, test::kTag, {}, bytes) == Post::done) ++sent;
      a_.module().end_batch();
      return b_.received.size() == before + count;
    };
    ASSERT_TRUE(test::pump(post_some, a_, b_));
    for (const auto& message : b_.received) ASSERT_EQ(message.size(), size);
    b_.received.clear();
  }

  static constexpr std::size_t kWarmUp = 5000;
  Side a_{&open};
  Side b_{&open};
  btl::Endpoint* to_b_ = nullptr;
};

constexpr std::size_t kMessages = 6400;

TEST_F(VerbsDeviceUse, AStreamOfShortMessagesRingsAtMostOneDoorbellForEightOfThem) {
  const Counts before = counts();
  send(kMessages);
  const Counts after = counts();
  EXPECT_LE(after.doorbells - before.doorbells, kMessages / 8);
  EXPECT_LE(after.work_requests - before.work_requests, kMessages + kMessages / 16);  // with the frames of credits
  EXPECT_LE(after.send_completions - before.send_completions, kMessages / 8);
  EXPECT_EQ(after.receiver_waits, before.receiver_waits);
}

TEST_F(VerbsDeviceUse, AStreamOfMessagesFromBuffersHasFewDoorbellsAndCompletions) {
  send(kMessages, 2048);
  const Counts before = counts();
  send(kMessages, 2048);
  const Counts after = counts();
  EXPECT_LE(after.doorbells - before.doorbells, kMessages / 8);
  EXPECT_LE(after.send_completions - before.send_completions, kMessages / 8);
}

TEST_F(VerbsDeviceUse, ALoneMessageIsPostedAtOnce) {
  for (int i = 0; i < 100; ++i) {
    a_.module().progress(64);
    const Counts before = counts();
    const std::byte byte{};
    ASSERT_EQ(a_.module().send_inline(*to_b_, test::kTag, {}, {&byte, 1}), Post::done);
    EXPECT_EQ(counts().doorbells, before.doorbells + 1);
    const std::size_t arrived = b_.received.size() + 1;
    ASSERT_TRUE(test::pump([&] { return b_.received.size() == arrived; }, b_));
  }
}

TEST(VerbsConnection, UsesTheExtensionsThatBothDevicesHave) {
  Side a{&open};
  Side b{&open};
  const Counts before = counts();
  const std::byte byte{};
  ASSERT_EQ(test::send(*a.connect(b), {}, {&byte, 1}, a, b), Post::done);
  ASSERT_TRUE(test::pump([&] { return b.received.size() == 1; }, a, b));
  EXPECT_EQ(counts().extended_pairs - before.extended_pairs, 2U);
}

TEST(VerbsRegistration, HasRelaxedOrderIfNoPeerWritesToIt) {
  Side side{&open};
  std::vector<std::byte> memory(100'000);
  const std::uint64_t before = counts().relaxed_bytes;
  const auto read = side.module().register_memory(memory.data(), memory.size(), Rights::remote_read);
  EXPECT_EQ(counts().relaxed_bytes - before, memory.size());
  const auto written = side.module().register_memory(memory.data(), memory.size(), Rights::remote_write);
  EXPECT_EQ(counts().relaxed_bytes - before, memory.size());
  EXPECT_TRUE(read && side.module().deregister_memory(*read));
  EXPECT_TRUE(written && side.module().deregister_memory(*written));
}

TEST(VerbsPingPong, OfAFreshConnectionCostsOneRequestForEachMessage) {
  Side a{&open};
  Side b{&open};
  btl::Endpoint* const to_b = a.connect(b);
  const std::byte byte{};
  ASSERT_EQ(test::send(*to_b, {}, {&byte, 1}, a, b), Post::done);
  ASSERT_TRUE(test::pump([&] { return b.received.size() == 1; }, a, b));
  btl::Endpoint* const to_a = b.accepted.at(0);
  ASSERT_EQ(test::send(*to_a, {}, {&byte, 1}, a, b), Post::done);
  ASSERT_TRUE(test::pump([&] { return a.received.size() == 1; }, a, b));
  const Counts before = counts();
  for (std::size_t i = 2; i < 102; ++i) {
    ASSERT_EQ(a.module().send_inline(*to_b, test::kTag, {}, {&byte, 1}), Post::done);
    ASSERT_TRUE(test::pump([&] { return b.received.size() == i; }, b));
    ASSERT_EQ(b.module().send_inline(*to_a, test::kTag, {}, {&byte, 1}), Post::done);
    ASSERT_TRUE(test::pump([&] { return a.received.size() == i; }, a));
  }
  EXPECT_EQ(counts().work_requests - before.work_requests, 200U);
}

TEST_F(VerbsDeviceUse, MessagesOfABatchLeaveInOrder) {
  b_.received.clear();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::vector<std::byte> bytes = test::pattern(1 + i * 7 % 700, i);  // inline and from buffers in turn
    if (i % 20 == 0) a_.module().begin_batch();
    ASSERT_EQ(test::send(*to_b_, {}, bytes, a_, b_), Post::done);
    if (i % 20 == 19) a_.module().end_batch();
  }
  ASSERT_TRUE(test::pump([&] { return b_.received.size() == 1000; }, a_, b_));
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(b_.received[i], test::pattern(1 + i * 7 % 700, i)) << i;
}

TEST_F(VerbsDeviceUse, MessagesOfAnOpenBatchPrecedeADisconnect) {
  b_.received.clear();
  const std::byte byte{};
  a_.module().begin_batch();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(a_.module().send_inline(*to_b_, test::kTag, {}, {&byte, 1}), Post::done);
  a_.module().disconnect(*to_b_);
  a_.module().end_batch();
  ASSERT_TRUE(test::pump([&] { return !b_.failures.empty(); }, a_, b_));
  EXPECT_EQ(b_.received.size(), 10U);
  EXPECT_EQ(b_.failures.front().why.os_errno, 0);
}

TEST_F(VerbsDeviceUse, AnOpenBatchOnAQueuePairThatFailsEndsThePeerOnceWithAnError) {
  const std::vector<std::byte> bytes = test::pattern(2048, 1);
  a_.module().begin_batch();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(a_.module().send_inline(*to_b_, test::kTag, {}, bytes), Post::done);
  test::verbs_double::fail_queue_pairs();
  a_.module().end_batch();
  ASSERT_TRUE(test::pump([&] { return !a_.failures.empty(); }, a_));
  EXPECT_EQ(a_.failures.front().why.code, Errc::peer_gone);
  EXPECT_NE(a_.failures.front().why.os_errno, 0);
  for (int i = 0; i < 100; ++i) a_.module().progress(64);
  EXPECT_EQ(a_.failures.size(), 1U);
  EXPECT_EQ(a_.module().send_inline(*to_b_, test::kTag, {}, bytes), Post::failed);
}

TEST_F(VerbsDeviceUse, APortErrorWhileTheModuleIsClosedIsIgnored) {
  auto leaving = std::make_unique<Side>(Side::Open{&open});
  btl::Endpoint* const to_b = leaving->connect(b_);
  const std::byte byte{};
  ASSERT_EQ(test::send(*to_b, {}, {&byte, 1}, *leaving, b_), Post::done);
  const std::vector<std::byte> bytes = test::pattern(2048, 1);
  ASSERT_EQ(leaving->module().send_inline(*to_b, test::kTag, {}, bytes), Post::done);  // it leaves once this is sent
  test::verbs_double::report_port_error();
  leaving.reset();
  EXPECT_FALSE(to_b_->dead());
}

/// Puts and gets of a to one region of b.
class VerbsOneSidedUse : public VerbsDeviceUse {
 protected:
  static constexpr std::size_t kEach = 8;

  void SetUp() override {
    VerbsDeviceUse::SetUp();
    handle_ = expose(region_);
    move(OperationKind::put, 1);  // the connection of the one-sided queue is made
  }
  MemoryHandle expose(std::vector<std::byte>& region) {
    const auto handle = b_.module().register_memory(region.data(), region.size(), Rights::all);
    EXPECT_TRUE(handle);
    return *handle;
  }
  Post post(OperationKind kind, std::size_t i, const MemoryHandle& handle, Completion& completion) {
    const auto remote = reinterpret_cast<std::uint64_t>(region_.data() + i * kEach);
    return a_.module().transfer(kind, *to_b_, local_.data() + i * kEach, nullptr, remote, handle, kEach, completion);
  }
  /// Posts the first `count` operations, as many between two calls of progress() as are taken, and waits for all.
  void move(OperationKind kind, std::size_t count) {
    std::vector<test::CountedCompletion> completions(count);
    std::size_t posted = 0;
    std::size_t ended = 0;
    const auto post_some = [&] {
      while (posted < count && post(kind, posted, handle_, completions[posted]) == Post::queued) ++posted;
      while (ended < posted && completions[ended].calls != 0) ++ended;
      return ended == count;
    };
    ASSERT_TRUE(test::pump(post_some, a_, b_));
    for (const auto& completion : completions) {
      ASSERT_EQ(completion.calls, 1);
      ASSERT_TRUE(completion.ok());
    }
  }

  std::vector<std::byte> region_ = std::vector<std::byte>(kMessages * kEach);
  std::vector<std::byte> local_ = test::pattern(kMessages * kEach, 3);
  MemoryHandle handle_{};
};

TEST_F(VerbsOneSidedUse, AStreamOfPutsOrGetsHasAtMostOneDoorbellAndOneCompletionForEightOfThem) {
  const std::vector<std::byte> bytes = local_;
  for (const OperationKind kind : {OperationKind::put, OperationKind::get}) {
    const Counts before = counts();
    move(kind, kMessages);
    const Counts after = counts();
    EXPECT_LE(after.doorbells - before.doorbells, kMessages / 8);
    EXPECT_LE(after.send_completions - before.send_completions, kMessages / 8);
    EXPECT_EQ(after.work_requests - before.work_requests, kMessages);
    EXPECT_EQ(region_, bytes);
    EXPECT_EQ(local_, bytes);
    std::fill(local_.begin(), local_.end(), std::byte{});
  }
}

TEST_F(VerbsOneSidedUse, ALoneOneIsPostedAtOnceAndThoseBehindItByAFlush) {
  std::array<test::CountedCompletion, 3> completions;
  const Counts before = counts();
  ASSERT_EQ(post(OperationKind::put, 0, handle_, completions[0]), Post::queued);
  EXPECT_EQ(counts().work_requests, before.work_requests + 1);
  ASSERT_EQ(post(OperationKind::put, 1, handle_, completions[1]), Post::queued);
  ASSERT_EQ(post(OperationKind::put, 2, handle_, completions[2]), Post::queued);
  EXPECT_EQ(counts().work_requests, before.work_requests + 1);
  test::CountedCompletion flushed;
  ASSERT_EQ(a_.module().flush(to_b_, flushed), Post::queued);
  EXPECT_EQ(counts().work_requests, before.work_requests + 3);
  EXPECT_EQ(counts().doorbells, before.doorbells + 2);
  ASSERT_TRUE(test::pump([&] { return flushed.calls != 0; }, a_, b_));
  for (const auto& completion : completions) EXPECT_EQ(completion.calls, 1);
}

TEST_F(VerbsOneSidedUse, APutThatTheDeviceRefusesFailsAloneAmongCollectedOnes) {
  for (const std::size_t refused : {0U, 1U, 17U, 39U}) {
    constexpr std::size_t kCount = 40;
    const MemoryHandle stale = expose(region_);
    ASSERT_TRUE(b_.module().deregister_memory(stale));
    std::fill(region_.begin(), region_.end(), std::byte{});
    std::array<test::CountedCompletion, kCount> completions;
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(post(OperationKind::put, i, i == refused ? stale : handle_, completions[i]), Post::queued);
    }
    test::CountedCompletion flushed;
    ASSERT_EQ(a_.module().flush(to_b_, flushed), Post::queued);
    ASSERT_TRUE(test::pump([&] { return flushed.calls != 0; }, a_, b_));
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(completions[i].calls, 1) << i;
      EXPECT_EQ(completions[i].error.code, i == refused ? Errc::invalid_argument : Errc{}) << i;
      const auto at = static_cast<std::ptrdiff_t>(i * kEach);
      EXPECT_EQ(std::equal(region_.begin() + at, region_.begin() + at + kEach, local_.begin() + at), i != refused) << i;
    }
  }
  EXPECT_FALSE(to_b_->dead());
}

/// A Context disconnects a peer within a completion that runs in a post, which would free what the post still uses.
TEST_F(VerbsOneSidedUse, APutFromUnmappedMemoryFailsInProgressAndNotWithinItsPost) {
  constexpr std::size_t kSize = 32 << 10;
  std::byte* const local = Mapping::anonymous(kSize)->data();  // which is unmapped at once
  test::CountedCompletion completion;
  const auto remote = reinterpret_cast<std::uint64_t>(region_.data());
  ASSERT_EQ(a_.module().transfer(OperationKind::put, *to_b_, local, nullptr, remote, handle_, kSize, completion),
            Post::queued);
  EXPECT_EQ(completion.calls, 0);
  EXPECT_FALSE(a_.module().arm()) << "nothing would wake the sleeper";
  test::CountedCompletion flushed;
  EXPECT_EQ(a_.module().flush(to_b_, flushed), Post::queued);
  ASSERT_TRUE(test::pump([&] { return flushed.calls != 0; }, a_, b_));
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  EXPECT_FALSE(to_b_->dead());
}

TEST_F(VerbsOneSidedUse, CollectedPutsOnAQueuePairThatFailsEndOnceWithAnError) {
  std::array<test::CountedCompletion, 10> completions;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    ASSERT_EQ(post(OperationKind::put, i, handle_, completions[i]), Post::queued);
  }
  test::verbs_double::fail_queue_pairs();
  ASSERT_TRUE(test::pump([&] { return !a_.failures.empty(); }, a_));
  for (std::size_t i = 1; i < completions.size(); ++i) {  // the first one was executed
    EXPECT_EQ(completions[i].calls, 1);
    EXPECT_EQ(completions[i].error.code, Errc::peer_gone);
  }
}

TEST_F(VerbsDeviceUse, WaitingForAMessageSeldomAsksTheConnectionManager) {
  const Counts before = counts();
  for (int i = 0; i < 100'000; ++i) a_.module().progress(64);
  EXPECT_LE(counts().manager_looks - before.manager_looks, 1000U);
}

TEST(VerbsMemory, AnIdlePeerCostsAtMost64KiB) {
  constexpr std::size_t kPeers = 32;
  Side first{&open};
  Side second{&open};
  std::vector<std::unique_ptr<Side>> sides;
  const auto connect_all = [&](Side& to) {
    for (const auto& side : sides) {
      const std::size_t before = to.accepted.size();
      ASSERT_NE(side->connect(to), nullptr);
      ASSERT_TRUE(test::pump([&] { return to.accepted.size() == before + 1; }, *side, to));
    }
  };
  for (std::size_t i = 0; i < kPeers; ++i) sides.push_back(std::make_unique<Side>(Side::Open{&open}));
  connect_all(first);  // each has its buffers for sending now
  const Counts before = counts();
  connect_all(second);  // each connection is one peer of both of its sides
  const Counts after = counts();
  const std::uint64_t queue = (after.send_queue_bytes - before.send_queue_bytes) / (2 * kPeers);
  const std::uint64_t sending = std::uint64_t{8} * (16U << 10) + 1024;  // of `second`, for all its peers
  const std::uint64_t receiving = (after.registered_bytes - before.registered_bytes - sending) / (2 * kPeers);
  EXPECT_LE(queue + receiving, 64U << 10) << queue << " bytes of a send queue, " << receiving << " to receive";
}

}  // namespace
}  // namespace opal::btl::verbs
