// SPDX-License-Identifier: Apache-2.0
// The transfer engine with a back end whose pieces do what a test says.
#include "opal/btl/shared/transfer_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/btl/emulation/fake_transport.hpp"

namespace opal::btl {
namespace {

using Kind = RdmaOperation::Kind;
constexpr std::uint64_t kPiece = 10;  // bytes
constexpr Error kFirst{Errc::permission, 0, "first"};
constexpr Error kSecond{Errc::protocol, 0, "second"};

struct CountedCompletion : Completion {
  CountedCompletion() {
    fn = [](Completion& self) noexcept { ++static_cast<CountedCompletion&>(self).calls; };
  }
  int calls = 0;
};

/// Pieces of 10 bytes, at most `bound` at a time.
class Scripted final : TransferEngine {
 public:
  using TransferEngine::abandon;
  using TransferEngine::active;
  using TransferEngine::idle;
  using TransferEngine::Move;
  using TransferEngine::retry;

  explicit Scripted(RdmaOperations& operations) : TransferEngine(operations) {}

  Post put(Endpoint& to, std::uint64_t size, Completion& completion) {
    RdmaOperation* const operation = begin(Kind::put, to, nullptr, nullptr, 0, {}, size, completion);
    return operation != nullptr ? start(*operation) : Post::again;
  }
  /// The oldest piece in flight completes.
  void complete(const Error& why = {}) {
    TransferPiece& piece = *in_flight.front();
    in_flight.pop_front();
    piece.finish(why);
  }

  Move next = Move::in_flight;  ///< of every piece that is posted
  std::size_t bound = 2;
  std::deque<TransferPiece*> in_flight;
  std::size_t taken = 0;
  std::size_t most = 0;
  std::uint64_t planned = 0;

 private:
  TransferPiece* take(RdmaOperation& operation) noexcept override {
    if (operation.pieces == bound) return nullptr;
    most = std::max(most, ++taken);
    return &pieces_.emplace_back();
  }
  [[nodiscard]] std::uint64_t plan(const RdmaOperation&, std::uint64_t offset,
                                   std::uint64_t left) const noexcept override {
    EXPECT_EQ(offset % kPiece, 0U);
    return std::min(kPiece, left);
  }
  Move move(TransferPiece& piece) noexcept override {
    if (next == Move::in_flight) {
      planned += piece.size;
      in_flight.push_back(&piece);
    }
    return next;
  }
  void release(TransferPiece& /*piece*/) noexcept override { --taken; }

  std::deque<TransferPiece> pieces_;  // each is used once
};

struct TransferEngineTest : ::testing::Test {
  test::FakePair pair{1000};
  Endpoint& to = pair.a.module.endpoint();
  RdmaOperations operations;
  Scripted engine{operations};
  CountedCompletion completion;
};

TEST_F(TransferEngineTest, BoundsThePiecesInFlightAndEndsWithTheLast) {
  ASSERT_EQ(engine.put(to, 35, completion), Post::queued);
  for (int ended = 0; ended < 4; ++ended) {
    EXPECT_EQ(completion.calls, 0);
    engine.complete();
  }
  EXPECT_EQ(engine.most, 2U);
  EXPECT_EQ(engine.planned, 35U);
  EXPECT_EQ(completion.calls, 1);
  EXPECT_TRUE(completion.ok());
  EXPECT_EQ(operations.active(), 0U);
}

TEST_F(TransferEngineTest, WhatEndsWithinItsPostIsAnsweredAndNotCompleted) {
  engine.next = Scripted::Move::ended;
  EXPECT_EQ(engine.put(to, 35, completion), Post::done);
  EXPECT_EQ(completion.calls, 0);
  EXPECT_EQ(operations.active(), 0U);
  EXPECT_EQ(engine.taken, 0U);
}

TEST_F(TransferEngineTest, BackPressureHoldsAPieceUntilItIsRetried) {
  engine.next = Scripted::Move::held;
  ASSERT_EQ(engine.put(to, 10, completion), Post::queued);
  EXPECT_FALSE(engine.idle());
  EXPECT_EQ(engine.retry(), 0U);
  EXPECT_FALSE(engine.idle());
  engine.next = Scripted::Move::in_flight;
  EXPECT_EQ(engine.retry(), 1U);
  EXPECT_TRUE(engine.idle());
  engine.complete();
  EXPECT_EQ(completion.calls, 1);
}

TEST_F(TransferEngineTest, TheFirstErrorEndsItWhenNothingIsInFlight) {
  ASSERT_EQ(engine.put(to, 100, completion), Post::queued);
  engine.complete(kFirst);
  EXPECT_EQ(completion.calls, 0) << "a piece is in flight: the caller's memory is in use";
  EXPECT_EQ(engine.in_flight.size(), 1U) << "nothing is posted after an error";
  engine.complete(kSecond);
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, kFirst.code);
}

TEST_F(TransferEngineTest, AbandonEndsHeldPiecesNowAndTheOperationWithThoseInFlight) {
  ASSERT_EQ(engine.put(to, 10, completion), Post::queued);
  engine.next = Scripted::Move::held;
  CountedCompletion held;
  ASSERT_EQ(engine.put(to, 10, held), Post::queued);
  CountedCompletion elsewhere;
  ASSERT_EQ(engine.put(pair.b.module.endpoint(), 10, elsewhere), Post::queued);
  engine.abandon(to, kFirst);
  EXPECT_EQ(held.calls, 1);
  EXPECT_EQ(held.error.code, kFirst.code);
  EXPECT_EQ(completion.calls, 0);
  engine.complete();
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, kFirst.code);
  EXPECT_EQ(elsewhere.calls, 0);
  engine.abandon(pair.b.module.endpoint(), kSecond);
  EXPECT_EQ(elsewhere.calls, 1);
  EXPECT_EQ(operations.active(), 0U);
}

TEST_F(TransferEngineTest, LeavesPlacesInTheTable) {
  std::deque<CountedCompletion> completions(TransferEngine::kMost);
  for (CountedCompletion& each : completions) ASSERT_EQ(engine.put(to, 10, each), Post::queued);
  EXPECT_EQ(engine.put(to, 10, completion), Post::again);
  EXPECT_LT(engine.active(), RdmaOperations::kMost);
  engine.complete();
  EXPECT_EQ(engine.put(to, 10, completion), Post::queued);
  engine.abandon(to, kFirst);
  while (!engine.in_flight.empty()) engine.complete();
  EXPECT_EQ(completion.calls, 1);
}

TEST_F(TransferEngineTest, OneFlushWaitsForPiecesAndForWhatOthersCarry) {
  ASSERT_EQ(engine.put(to, 10, completion), Post::queued);
  CountedCompletion single;
  RdmaOperation* const operation = operations.begin(Kind::put, to, single, this);
  CountedCompletion flush;
  ASSERT_EQ(operations.flush(&to, flush), Post::queued);
  engine.complete();
  EXPECT_EQ(flush.calls, 0);
  operations.finish(*operation, {});
  EXPECT_EQ(flush.calls, 1);
}

TEST_F(TransferEngineTest, AnAnswerFindsTheOperationsOfItsCarrierAlone) {
  CountedCompletion single;
  RdmaOperation* const operation = operations.begin(Kind::get, to, single, this);
  const std::uint64_t name = operations.name_of(*operation);
  EXPECT_EQ(operations.find(name, to, this), operation);
  EXPECT_EQ(operations.find(name, to, &engine), nullptr);
  EXPECT_EQ(operations.find(name, pair.b.module.endpoint(), this), nullptr);
  operations.finish(*operation, {});
  EXPECT_EQ(operations.find(name, to, this), nullptr);
}

}  // namespace
}  // namespace opal::btl
