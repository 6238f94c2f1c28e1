// SPDX-License-Identifier: Apache-2.0
// Every way, within small bounds, that a transfer can go in which the target helps: pieces through chunks and in place,
// shares taken off both ends, a helper that gives up what it cannot copy, an initiator that has the transfer repeated
// by messages, a helper killed anywhere.  The code under test is helped_ring.hpp's own over modelled memory.
#include <gtest/gtest.h>

#include <vector>

#include "opal/btl/sm/helped/state/helped_ring.hpp"
#include "tests/model/memory.hpp"

namespace opal::btl::sm {
namespace {

using test::model::Atomic;
using test::model::Explorer;
using test::model::Plain;

constexpr std::uint32_t kChunks = 2;
constexpr std::uint32_t kChunkUnits = 1;

/// The ring's memory; a chunk is one plain word, so that its use again too early is a race.
struct Shared {
  Atomic<std::uint64_t> claim;
  Atomic<std::uint32_t> drained;
  Atomic<std::uint64_t> pieces[kChunks];
  Plain chunks[kChunks];
};
class ModelRing {
 public:
  explicit ModelRing(Shared& shared) noexcept : shared_(&shared) {}
  [[nodiscard]] Atomic<std::uint64_t>& claim() const noexcept { return shared_->claim; }
  [[nodiscard]] Atomic<std::uint32_t>& drained() const noexcept { return shared_->drained; }
  [[nodiscard]] Atomic<std::uint64_t>& piece(std::uint32_t number) const noexcept {
    return shared_->pieces[number % kChunks];
  }
  [[nodiscard]] std::byte* chunk(std::uint32_t number) const noexcept {
    return reinterpret_cast<std::byte*>(&shared_->chunks[number % kChunks]);
  }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return kChunks; }
  [[nodiscard]] std::uint32_t chunk_units() const noexcept { return kChunkUnits; }

 private:
  Shared* shared_;
};

struct Plan {
  std::uint32_t units;
  bool in_place;         ///< no chunks: pieces are in place
  int helper_copies;     ///< pieces that the helper can copy before it gives up, or refuses
  bool helper_refuses;   ///< then
  int initiator_copies;  ///< shares that the initiator can copy before it has no mechanism any more
  bool helper_is_mortal = false;
};

struct PullProgram : Explorer::Program {
  explicit PullProgram(const Plan& plan)
      : plan(plan), target(ModelRing{shared}), initiator(ModelRing{shared}), copied(plan.units) {
    const std::uint32_t generation = initiator.begin(plan.units);
    target.begin(generation, plan.units);
    Explorer::current().add_thread([this] { help(); }, plan.helper_is_mortal);
    Explorer::current().add_thread([this] { pull(2); });
  }

  /// As Module::feed.
  void help() {
    for (int pieces = 0; pieces < 4; ++pieces) {
      UnitRange piece;
      const auto look = target.take(piece, 1, kChunkUnits);
      Explorer::current().check(look != decltype(target)::Take::garbage, "the helper finds garbage");
      if (look != decltype(target)::Take::piece) return;  // full: it is called again, which adds no new way
      if (pieces == plan.helper_copies) {
        target.give_up(piece);
        return plan.helper_refuses ? target.refuse() : void();
      }
      if (!plan.in_place) reinterpret_cast<Plain*>(target.chunk())->set(piece.first + 100);
      target.publish(piece, plan.in_place);
    }
  }

  /// As Module::progress_pulls.
  void pull(int rounds) {
    for (int round = 0; round < rounds && !initiator.over(); ++round) {
      if (take_piece()) continue;
      const UnitRange range = initiator.take_from_back(1, 2);
      if (range.count == 0) continue;
      if (shares++ < plan.initiator_copies) {
        mark(range);
      } else {
        initiator.close();
        repeated = true;  // by messages, when it is over
      }
    }
  }
  bool take_piece() {
    UnitRange piece;
    const std::byte* bytes = nullptr;
    const auto look = initiator.poll(piece, bytes);
    Explorer::current().check(look != decltype(initiator)::Poll::garbage, "the initiator finds garbage");
    if (look != decltype(initiator)::Poll::piece) return false;
    if (bytes != nullptr) {
      const std::uint64_t found = reinterpret_cast<const Plain*>(bytes)->get();
      Explorer::current().check(found == piece.first + 100, "a chunk with another piece");
    }
    mark(piece);
    initiator.pop(piece);
    return true;
  }
  void mark(const UnitRange& range) {
    for (std::uint32_t unit = range.first; unit != range.first + range.count; ++unit) {
      Explorer::current().check(unit < plan.units, "a unit that does not exist");
      Explorer::current().check(copied[unit]++ == 0, "a unit is copied twice");
    }
  }

  /// The initiator goes on alone until the transfer is over, as it does when the helper is silent.
  void finish() override {
    for (int i = 0; i < 32 && !initiator.over(); ++i) pull(1);
    const bool refused = initiator.claims().refused;
    if (!initiator.over()) {
      // Only a helper that was killed keeps what it has taken; the peer's end then ends the transfer.
      Explorer::current().check(plan.helper_is_mortal, "the transfer never ends");
      return;
    }
    Explorer::current().check(!repeated || initiator.is_quiet(), "repeated, and the helper still copies");
    if (refused) return;
    for (const int times : copied) Explorer::current().check(times == 1, "over, and a unit is missing");
  }

  Plan plan;
  Shared shared;
  BasicTargetSide<ModelRing> target;
  BasicInitiatorSide<ModelRing> initiator;
  std::vector<int> copied;
  bool repeated = false;
  int shares = 0;
};

/// An initiator that abandons the transfer and uses the destination again once the helper is quiet.
struct AbandonProgram : Explorer::Program {
  static constexpr std::uint32_t kUnits = 3;

  explicit AbandonProgram(bool waits) : waits(waits), target(ModelRing{shared}), initiator(ModelRing{shared}) {
    target.begin(initiator.begin(kUnits), kUnits);
    Explorer::current().add_thread([this] { help(); });
    Explorer::current().add_thread([this] { abandon(); });
  }
  void help() {
    UnitRange piece;
    for (int pieces = 0; pieces < 3; ++pieces) {
      if (target.take(piece, 1, kChunkUnits) != decltype(target)::Take::piece) return;
      if (pieces == 1) return target.give_up(piece);
      destination[piece.first].set(1);
      target.publish(piece, true);
    }
  }
  void abandon() {
    initiator.close();
    for (int looks = 0; looks < 4; ++looks) {
      if (waits && !initiator.is_quiet()) continue;
      for (Plain& unit : destination) unit.set(2);  // a race with the helper's if it still copies
      return;
    }
  }
  void finish() override { Explorer::current().check(initiator.is_quiet(), "the helper never becomes quiet"); }

  const bool waits;
  Shared shared;
  Plain destination[kUnits];
  BasicTargetSide<ModelRing> target;
  BasicInitiatorSide<ModelRing> initiator;
};

TEST(ModelOfPulls, AfterATransferIsAbandonedTheHelperTouchesNothingOnceItIsQuiet) {
  const auto explore = [](bool waits) {
    return Explorer::explore(
        [waits]() -> std::unique_ptr<Explorer::Program> { return std::make_unique<AbandonProgram>(waits); });
  };
  const auto outcome = explore(true);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.exhausted) << outcome.runs << " runs were not enough";
  EXPECT_NE(explore(false).failure, "") << "without the wait";
}

std::function<std::unique_ptr<Explorer::Program>()> program(const Plan& plan) {
  return [plan]() -> std::unique_ptr<Explorer::Program> { return std::make_unique<PullProgram>(plan); };
}
void expect_right(const Plan& plan) {
  const Explorer::Outcome outcome = Explorer::explore(program(plan));
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.exhausted) << outcome.runs << " runs were not enough";
  testing::Test::RecordProperty("states", std::to_string(outcome.states));
}

constexpr int kAlways = 1000;

TEST(ModelOfPulls, EveryWayOfAGetThroughChunksCopiesEachUnitOnce) {
  for (const std::uint32_t units : {1U, 3U, 4U}) expect_right({units, false, kAlways, false, kAlways});
}

TEST(ModelOfPulls, EveryWayOfAPutInPlaceCopiesEachUnitOnce) {
  for (const std::uint32_t units : {1U, 3U, 4U}) expect_right({units, true, kAlways, false, kAlways});
}

TEST(ModelOfPulls, WhatTheHelperGivesUpIsCopiedByTheInitiator) {
  for (const int copies : {0, 1}) expect_right({3, true, copies, false, kAlways});
}

TEST(ModelOfPulls, AnInitiatorThatCannotCopyRepeatsTheTransferOnceTheHelperIsQuiet) {
  for (const bool in_place : {false, true}) {
    for (const int by_helper : {0, 1, kAlways}) {
      for (const int by_initiator : {0, 1}) expect_right({3, in_place, by_helper, false, by_initiator});
    }
  }
}

TEST(ModelOfPulls, ARefusalEndsTheTransfer) {
  for (const int copies : {0, 1}) expect_right({3, false, copies, true, kAlways});
}

TEST(ModelOfPulls, AHelperKilledAnywhereDoublesNothing) {
  expect_right({3, false, kAlways, false, kAlways, true});
  expect_right({3, true, 1, false, kAlways, true});
  expect_right({3, true, 1, false, 0, true});
}

TEST(ModelOfPulls, WithoutReleaseItIsFoundWrong) {
  Explorer::Options options;
  options.weak_releases = true;
  const auto outcome = Explorer::explore(program({3, false, kAlways, false, kAlways}), options);
  EXPECT_NE(outcome.failure, "");
}

/// What the model would miss if it looked at nothing: an initiator that does not copy what it has taken.
TEST(ModelOfPulls, AUnitThatNobodyCopiesIsFound) {
  struct Forgetful final : PullProgram {
    explicit Forgetful(const Plan& plan) : PullProgram(plan) {}
    void finish() override {
      (void)initiator.take_from_back(1, 1);
      PullProgram::finish();
    }
  };
  const Plan plan{4, true, 0, false, kAlways};
  const auto outcome =
      Explorer::explore([plan]() -> std::unique_ptr<Explorer::Program> { return std::make_unique<Forgetful>(plan); });
  EXPECT_NE(outcome.failure.find("a unit is missing"), std::string::npos) << outcome.failure;
}

}  // namespace
}  // namespace opal::btl::sm
