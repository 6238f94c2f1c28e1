// SPDX-License-Identifier: Apache-2.0
// A look at one peer, of whom a message is awaited: what it takes, and what it leaves to a round of progress().
#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::kTag;
using test::pump;
using test::Side;

/// A side that sends to another one, through a fast box from the start of the test on.
struct Sender {
  explicit Sender(Side& receiver) : receiver(receiver) {
    to = side.connect(receiver);
    for (int i = 0; i < 100 && !has_fast_box(*to); ++i) {
      send(0);
      EXPECT_TRUE(pump([&] { return receiver.received.size() == sent; }, side, receiver));
    }
    EXPECT_TRUE(has_fast_box(*to));
    here = receiver.accepted.back();
    receiver.received.clear();
    sent = 0;
  }
  void send(std::uint64_t word) {
    EXPECT_EQ(side.module().send_inline(*to, kTag, bytes_of(word), {}), Post::done);
    ++sent;
  }
  /// A message that is too long for the box.
  void send_long(std::size_t size) {
    const std::vector<std::byte> bytes(size);
    EXPECT_EQ(side.module().send_inline(*to, kTag, bytes, {}), Post::done);
    ++sent;
  }

  Side& receiver;
  Side side{"sm"};
  btl::Endpoint* to = nullptr;
  btl::Endpoint* here = nullptr;  // the receiver's endpoint to it
  std::size_t sent = 0;
};

std::uint64_t word_of(const std::vector<std::byte>& message) {
  std::uint64_t word = 0;
  EXPECT_TRUE(read_object(message, word));
  return word;
}

TEST(SmAwaited, ALookTakesAsManyMessagesOfThatPeerAsItMayAndNobodyElses) {
  Side receiver{"sm"};
  Sender one{receiver};
  Sender other{receiver};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    one.send(i);
    other.send(10 + i);
  }
  EXPECT_EQ(receiver.module().progress_from(*one.here, 2), 2U);
  EXPECT_EQ(receiver.module().progress_from(*one.here, 2), 1U);
  EXPECT_EQ(receiver.module().progress_from(*one.here, 2), 0U);
  ASSERT_EQ(receiver.received.size(), 3U);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(word_of(receiver.received[i - 1]), i);
  ASSERT_TRUE(pump([&] { return receiver.received.size() == 6; }, receiver));
  EXPECT_EQ(word_of(receiver.received[3]), 11U);
}

TEST(SmAwaited, WhatWasSentByFifoBeforeIsNotOvertaken) {
  Side receiver{"sm"};
  Sender sender{receiver};
  const std::size_t too_long = 30'000;
  sender.send_long(too_long);
  sender.send(1);
  EXPECT_EQ(receiver.module().progress_from(*sender.here, 8), 0U) << "the box's message is the second";
  EXPECT_TRUE(receiver.received.empty());
  ASSERT_TRUE(pump([&] { return receiver.received.size() == 2; }, receiver));
  EXPECT_EQ(receiver.received[0].size(), too_long);
  EXPECT_EQ(word_of(receiver.received[1]), 1U);
  EXPECT_TRUE(receiver.failures.empty());
}

TEST(SmAwaited, APeerWithoutABoxIsLeftToTheRound) {
  Side receiver{"sm"};
  Side sender{"sm"};
  btl::Endpoint& to = *sender.connect(receiver);
  const std::uint64_t word = 1;
  ASSERT_EQ(sender.module().send_inline(to, kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump([&] { return !receiver.accepted.empty(); }, sender, receiver));
  EXPECT_EQ(receiver.module().progress_from(*receiver.accepted[0], 8), 0U);
  EXPECT_TRUE(pump([&] { return receiver.received.size() == 1; }, receiver));
}

TEST(SmAwaited, FromInsideAHandlerNothingIsReceived) {
  Side receiver{"sm"};
  Sender sender{receiver};
  std::size_t inside = 99;
  std::size_t calls = 0;
  receiver.handler = [&](btl::Delivery& delivery) {
    inside = receiver.module().progress_from(delivery.from, 8);
    ++calls;
  };
  sender.send(1);
  sender.send(2);
  EXPECT_EQ(receiver.module().progress_from(*sender.here, 1), 1U);
  EXPECT_EQ(inside, 0U);
  EXPECT_EQ(calls, 1U);
}

}  // namespace
}  // namespace opal::btl::sm
