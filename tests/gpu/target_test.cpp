// SPDX-License-Identifier: Apache-2.0
// The owner's side of puts and gets of GPU memory by messages: one copy for many messages, order, failures, ends.
#include <algorithm>

#include "opal/btl/shared/rdma_wire.hpp"
#include "tests/gpu/target.hpp"

namespace opal::gpu::test {
namespace {

class GpuTarget : public TargetTest {};

TEST_F(GpuTarget, ThePiecesOfAPutOrAGetTakeOneCopy) {
  open();
  const auto bytes = pattern(kSize, 3);
  std::vector<std::byte> back(kSize);
  CountedCompletion ends[2];
  const std::uint64_t before = control_ != nullptr ? copies() : 0;
  ASSERT_EQ(put(bytes, ends[0]), Post::queued);
  settle(ends[0]);
  EXPECT_TRUE(ends[0].ok());
  if (control_ != nullptr) {
    EXPECT_EQ(copies() - before, 1u) << "of ten messages";
  }
  ASSERT_EQ(get(back, ends[1]), Post::queued);
  settle(ends[1]);
  EXPECT_TRUE(ends[1].ok());
  if (control_ != nullptr) {
    EXPECT_EQ(copies() - before, 2u);
  }
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(device_.read(), bytes);
  EXPECT_TRUE(pair_->b.module.arm()) << "nothing is left to do";
}

TEST_F(GpuTarget, TransfersThatTakeTurnsGiveTheSameBytes) {
  for (const std::size_t capacity : {std::size_t{3}, std::size_t{1'000}}) {
    open();
    pair_->b.module.capacity = capacity;
    device_.write(pattern(kSize, 1));
    std::vector<std::vector<std::byte>> to(3, std::vector<std::byte>(kSize));
    CountedCompletion gets[3];
    for (std::size_t i = 0; i < to.size(); ++i) ASSERT_EQ(get(to[i], gets[i]), Post::queued);
    for (CountedCompletion& each : gets) settle(each);
    for (const auto& each : to) EXPECT_EQ(each, pattern(kSize, 1));
    pair_->a.module.capacity = capacity;
    CountedCompletion puts[3];
    for (CountedCompletion& each : puts) ASSERT_EQ(put(pattern(kSize, 2), each), Post::queued);
    for (CountedCompletion& each : puts) settle(each);
    EXPECT_EQ(device_.read(), pattern(kSize, 2));
  }
}

TEST_F(GpuTarget, AMessageLongerThanTheStagingMemoryIsCopiedDirectly) {
  pair_ = std::make_unique<FakePair>(std::size_t{2} << 20, kMessage);
  const DeviceBuffer device{1'500'000};
  handle_ = *pair_->b.module.register_memory(device.at(), device.size(), Rights::all);
  for (const std::size_t size :
       {device.size(), device.size() - 1}) {  // the other pieces are longer than a message of b
    CountedCompletion end;
    const auto& bytes = sent_.emplace_back(pattern(size, 3));
    ASSERT_EQ(pair_->a.module.put(pair_->a.module.endpoint(), bytes.data(), nullptr,
                                  reinterpret_cast<std::uint64_t>(device.at()), handle_, size, end),
              Post::queued);
    settle(end);
    EXPECT_TRUE(end.ok()) << to_string(end.error);
    EXPECT_EQ(device.read(0, size), bytes);
  }
}

TEST_F(GpuTarget, MemoryThatIsFreedInTheMiddleOfATransferIsAnError) {
  open();
  CountedCompletion ends[2];
  std::vector<std::byte> bytes(kSize);
  pair_->b.module.capacity = 2;
  ASSERT_EQ(put(pattern(kSize, 1), ends[0]), Post::queued);
  ASSERT_EQ(get(bytes, ends[1]), Post::queued);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair_->a.module.deliver_one());
  cuMemFree(device_.release());  // it stays registered
  for (CountedCompletion& each : ends) settle(each);
  EXPECT_FALSE(ends[0].ok());
}

// The reader takes nothing: a put of another operation goes on.
TEST_F(GpuTarget, AGetThatFindsNoRoomDoesNotDelayAPut) {
  open();
  device_.write(pattern(kSize, 1));
  std::vector<std::byte> bytes(kSize);
  CountedCompletion ends[2];
  pair_->b.module.capacity = 0;
  ASSERT_EQ(get(bytes, ends[0]), Post::queued);
  for (int i = 0; i < 50; ++i) pair_->settle();
  ASSERT_EQ(put(pattern(kSize, 2), ends[1]), Post::queued);
  for (int i = 0; i < 50; ++i) pair_->settle();
  EXPECT_EQ(device_.read(), pattern(kSize, 2));
  EXPECT_EQ(ends[1].calls, 0) << "the answer has no room";
  pair_->b.module.capacity = 1'000;
  settle(ends[0]);
  EXPECT_EQ(ends[1].calls, 1);
  EXPECT_TRUE(ends[0].ok() && ends[1].ok());
}

TEST_F(GpuTarget, ACopyThatFailsFailsThePut) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  open();
  CountedCompletion completion;
  ASSERT_EQ(put(pattern(kSize, 5), completion), Post::queued);
  control_->fail("cuMemcpyAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
  settle(completion);
  EXPECT_EQ(completion.error.code, Errc::os);
  CountedCompletion next;
  ASSERT_EQ(put(pattern(kSize, 6), next), Post::queued);
  settle(next);
  EXPECT_TRUE(next.ok()) << "and goes on";
  EXPECT_EQ(device_.read(), pattern(kSize, 6));
}

// A put whose pieces another one interrupts is copied in parts: a part that fails is not forgotten.
TEST_F(GpuTarget, APartThatFailsFailsThePut) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  open();
  CountedCompletion ends[2];
  ASSERT_EQ(put(pattern(kSize, 5), ends[0]), Post::queued);
  for (int i = 0; i < 4; ++i) pair_->a.module.deliver_one();
  control_->fail("cuMemcpyAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
  const btl::wire::PutPiece other{1'000, address(), 100, 0, handle_.bytes().size()};
  std::vector<std::byte> message{bytes_of(other).begin(), bytes_of(other).end()};
  message.insert(message.end(), handle_.bytes().begin(), handle_.bytes().end());
  message.insert(message.end(), 10, std::byte{1});
  pair_->b.module.receive(btl::wire::kPutPiece, message);
  settle(ends[0]);
  EXPECT_EQ(ends[0].error.code, Errc::os);
}

TEST_F(GpuTarget, ACopyThatFailsFailsTheGet) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  open();
  std::vector<std::byte> bytes(kSize);
  CountedCompletion completion;
  control_->fail("cuMemcpyAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(get(bytes, completion), Post::queued);
  settle(completion);
  EXPECT_EQ(completion.error.code, Errc::os);
  CountedCompletion next;
  ASSERT_EQ(get(bytes, next), Post::queued);
  settle(next);
  EXPECT_TRUE(next.ok());
}

TEST_F(GpuTarget, AfterDeregistrationNothingIsCopiedAnyMore) {
  open();
  CountedCompletion ends[2];
  std::vector<std::byte> bytes(kSize);
  pair_->b.module.capacity = 2;
  ASSERT_EQ(put(pattern(kSize, 7), ends[0]), Post::queued);
  ASSERT_EQ(get(bytes, ends[1]), Post::queued);
  for (int i = 0; i < 5; ++i) pair_->a.module.deliver_one();
  ASSERT_TRUE(pair_->b.module.deregister_memory(handle_));
  const auto then = device_.read();
  pair_->b.module.capacity = 1'000;
  settle(ends[0]);
  settle(ends[1]);
  EXPECT_EQ(ends[0].error.code, Errc::invalid_argument);
  EXPECT_EQ(ends[1].error.code, Errc::invalid_argument);
  EXPECT_EQ(device_.read(), then);
}

TEST_F(GpuTarget, APeerThatGoesLeavesNothingBehind) {
  open();
  for (int round = 0; round < 3; ++round) {
    CountedCompletion ends[2];
    std::vector<std::byte> bytes(kSize);
    pair_->b.module.capacity = 2;
    ASSERT_EQ(put(pattern(kSize), ends[0]), Post::queued);
    ASSERT_EQ(get(bytes, ends[1]), Post::queued);
    for (int i = 0; i < 5; ++i) pair_->a.module.deliver_one();
    pair_->b.module.rdma().endpoint_gone(pair_->b.module.endpoint(), {Errc::peer_gone, 0, "test"});
    pair_->a.module.rdma().endpoint_gone(pair_->a.module.endpoint(), {Errc::peer_gone, 0, "test"});
    EXPECT_TRUE(ends[0].calls == 1 && ends[1].calls == 1);
    pair_->a.module.outgoing.clear();
    pair_->b.module.outgoing.clear();
    pair_->b.module.capacity = 1'000;
    for (int i = 0; i < 100; ++i) pair_->settle();
    EXPECT_TRUE(pair_->b.module.outgoing.empty()) << "a message to a peer that has gone";
    EXPECT_TRUE(pair_->b.module.arm());
  }
  CountedCompletion completion;
  ASSERT_EQ(put(pattern(kSize, 8), completion), Post::queued);
  settle(completion);
  EXPECT_EQ(device_.read(), pattern(kSize, 8));
}

TEST_F(GpuTarget, PutsWithoutEndTakeNoMemoryWithoutEnd) {
  open();
  std::vector<std::byte> message;
  const auto send_piece = [&](std::uint64_t operation, std::uint64_t offset) {
    const btl::wire::PutPiece piece{operation, address(), 100, offset, handle_.bytes().size()};
    message.assign(bytes_of(piece).begin(), bytes_of(piece).end());
    message.insert(message.end(), handle_.bytes().begin(), handle_.bytes().end());
    message.insert(message.end(), 10, std::byte{1});
    pair_->b.module.receive(btl::wire::kPutPiece, message);
  };
  for (std::uint64_t i = 0; i < 5'000; ++i) send_piece(i, 0);  // never goes on
  EXPECT_TRUE(pair_->b.module.outgoing.empty());
  EXPECT_TRUE(pair_->b.module.arm());
  send_piece(1, 90);  // the end of one
  EXPECT_EQ(pair_->b.module.outgoing.size(), 1u) << "that it is done";
}

}  // namespace
}  // namespace opal::gpu::test
