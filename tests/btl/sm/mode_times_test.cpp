// SPDX-License-Identifier: Apache-2.0
// Which transfer mode the times of earlier gets choose.
#include "opal/btl/sm/helped/state/mode_times.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>

namespace opal::btl::sm {
namespace {

constexpr std::uint64_t kSize = 64 << 10;

/// Times of a get by mode, in ns.
using Machine = std::map<TransferMode, std::uint64_t>;
const Machine kNear{{TransferMode::alone, 7000}, {TransferMode::cooperative, 5000}, {TransferMode::pipelined, 2500}};
const Machine kFar{{TransferMode::alone, 9000}, {TransferMode::cooperative, 7000}, {TransferMode::pipelined, 15000}};

/// Does `gets` on a machine, and returns how many used each mode.
std::map<TransferMode, int> run(ModeTimes& times, const Machine& machine, int gets, std::uint64_t size = kSize) {
  std::map<TransferMode, int> uses;
  for (int i = 0; i < gets; ++i) {
    const TransferMode mode = times.choose(size);
    times.record(mode, size, machine.at(mode) * size / kSize);
    ++uses[mode];
  }
  return uses;
}

TEST(SmModeTimes, TheFirstGetsTryEachMode) {
  ModeTimes times;
  const auto uses = run(times, kFar, 6);
  EXPECT_EQ(uses.at(TransferMode::alone), 2);
  EXPECT_EQ(uses.at(TransferMode::cooperative), 2);
  EXPECT_EQ(uses.at(TransferMode::pipelined), 2);
}

TEST(SmModeTimes, TheFastestModeIsUsedButForOneTrialInThirtyTwo) {
  for (const auto& [machine, fastest] :
       {std::pair{kNear, TransferMode::pipelined}, std::pair{kFar, TransferMode::cooperative}}) {
    ModeTimes times;
    run(times, machine, 32);
    const auto uses = run(times, machine, 32'000);
    EXPECT_EQ(uses.at(fastest), 31'000);
    for (const auto& [mode, count] : uses) {
      if (mode != fastest) {
        EXPECT_EQ(count, 500) << "both others in turn";
      }
    }
  }
}

TEST(SmModeTimes, HelpThatSavesLittleIsNotAskedFor) {
  ModeTimes times;
  const Machine machine{
      {TransferMode::alone, 7000}, {TransferMode::cooperative, 6400}, {TransferMode::pipelined, 6400}};
  run(times, machine, 32);
  EXPECT_EQ(run(times, machine, 3200).at(TransferMode::alone), 3100);
}

TEST(SmModeTimes, AProcessThatMovesToAnotherCoreChangesTheModeWithinAHundredGets) {
  ModeTimes times;
  run(times, kNear, 1000);
  run(times, kFar, 100);
  EXPECT_GE(run(times, kFar, 320).at(TransferMode::cooperative), 310);
  run(times, kNear, 100);
  EXPECT_GE(run(times, kNear, 320).at(TransferMode::pipelined), 310);
}

TEST(SmModeTimes, OneInterruptedGetChangesNothing) {
  ModeTimes times;
  run(times, kNear, 1000);
  times.record(TransferMode::pipelined, kSize, 5'000'000);
  EXPECT_GE(run(times, kNear, 32).at(TransferMode::pipelined), 31);
}

/// A program that computes during its gets has no times of help.
TEST(SmModeTimes, AModeThatWasNeverMeasuredIsNotTheFastest) {
  ModeTimes times;
  int alone = 0;
  for (int i = 0; i < 326; ++i) {
    const TransferMode mode = times.choose(kSize);
    if (mode == TransferMode::alone) times.record(mode, kSize, 7000);
    if (i >= 6) alone += mode == TransferMode::alone ? 1 : 0;
  }
  EXPECT_EQ(alone, 310);
}

TEST(SmModeTimes, EachSizeHasItsOwnMode) {
  ModeTimes times;
  run(times, kNear, 320, kSize);
  run(times, kFar, 320, 8 * kSize);
  EXPECT_GE(run(times, kNear, 32, kSize).at(TransferMode::pipelined), 31);
  EXPECT_GE(run(times, kFar, 32, 8 * kSize).at(TransferMode::cooperative), 31);
}

TEST(SmModeTimes, ExtremeTimesAndSizesOverflowNothing) {
  ModeTimes times;
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{8192}, std::uint64_t{1} << 40}) {
    for (const std::uint64_t ns : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
      for (int i = 0; i < 100; ++i) times.record(times.choose(size), size, ns);
    }
    EXPECT_LE(times.choose(size), TransferMode::pipelined);
  }
}

}  // namespace
}  // namespace opal::btl::sm
