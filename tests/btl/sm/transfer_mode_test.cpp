// SPDX-License-Identifier: Apache-2.0
// How the size, the memory and the state of the target choose the mode of a large transfer.
#include "opal/btl/sm/helped/state/transfer_mode.hpp"

#include <gtest/gtest.h>

namespace opal::btl::sm {
namespace {

constexpr bool kGet = true;
constexpr bool kPut = false;
constexpr bool kAway = true;
constexpr bool kRuns = false;

Config config() {
  Config config;
  config.shared_help_from = 32_KiB;
  return config;
}

Target target(Target::Access access, std::uint64_t size) {
  Target target;
  target.access = access;
  target.checked = true;
  target.range.size = size;
  return target;
}

TEST(SmTransferMode, OfMappedMemoryIsChosenByItsThreshold) {
  const TransferModes modes{config(), {}};
  for (const bool get : {kGet, kPut}) {
    EXPECT_EQ(modes.choose(target(Target::Access::mapped, 32 * 1024 - 1), get, kRuns), TransferMode::alone);
    EXPECT_EQ(modes.choose(target(Target::Access::mapped, 32 * 1024), get, kRuns), TransferMode::cooperative);
  }
}

TEST(SmTransferMode, OfPrivateMemoryIsMeasuredForGetsAndChosenBySizeForPuts) {
  const TransferModes modes{config(), {}};
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 8 * 1024 - 1), kGet, kRuns), TransferMode::alone);
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 8 * 1024), kGet, kRuns), TransferMode::measured);
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 64 * 1024 - 1), kPut, kRuns), TransferMode::alone);
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 64 * 1024), kPut, kRuns), TransferMode::cooperative);
}

TEST(SmTransferMode, AGetOfMemoryThatTheMechanismMapsIsNotPipelined) {
  const TransferModes modes{config(), {}};
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 64 * 1024), kGet, kRuns, true), TransferMode::cooperative);
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 64 * 1024 - 1), kGet, kRuns, true), TransferMode::alone);
}

TEST(SmTransferMode, ATargetThatIsAwayIsNotAskedUnlessOnlyItReachesTheMemory) {
  const TransferModes modes{config(), {}};
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, 1 << 20), kGet, kAway), TransferMode::alone);
  EXPECT_EQ(modes.choose(target(Target::Access::mapped, 1 << 20), kPut, kAway), TransferMode::alone);
  EXPECT_EQ(modes.choose(target(Target::Access::messages, 1 << 20), kGet, kAway), TransferMode::pipelined);
}

TEST(SmTransferMode, ChunksAreForLargeGetsOfMemoryThatOnlyItsOwnerReaches) {
  const TransferModes modes{config(), {}};
  EXPECT_EQ(modes.choose(target(Target::Access::messages, 8191), kGet, kRuns), TransferMode::alone);
  EXPECT_EQ(modes.choose(target(Target::Access::messages, 8192), kGet, kRuns), TransferMode::pipelined);
  EXPECT_EQ(modes.choose(target(Target::Access::messages, 1 << 20), kPut, kRuns), TransferMode::alone);
  Target unchecked = target(Target::Access::messages, 1 << 20);
  unchecked.checked = false;  // a GPU's memory, say
  EXPECT_EQ(modes.choose(unchecked, kGet, kRuns), TransferMode::alone);
}

TEST(SmTransferMode, AForcedModeIsUsedFromOneUnitOnWhereItIsPossible) {
  const TransferModes alone{config(), TransferMode::alone};
  EXPECT_EQ(alone.choose(target(Target::Access::mapped, 1 << 20), kGet, kRuns), TransferMode::alone);
  const TransferModes cooperative{config(), TransferMode::cooperative};
  EXPECT_EQ(cooperative.choose(target(Target::Access::mechanism, 4096), kPut, kRuns), TransferMode::cooperative);
  EXPECT_EQ(cooperative.choose(target(Target::Access::mechanism, 4095), kPut, kRuns), TransferMode::alone);
  const TransferModes pipelined{config(), TransferMode::pipelined};
  EXPECT_EQ(pipelined.choose(target(Target::Access::mechanism, 4096), kGet, kRuns), TransferMode::pipelined);
  EXPECT_EQ(pipelined.choose(target(Target::Access::messages, 4096), kGet, kRuns), TransferMode::pipelined);
  EXPECT_EQ(pipelined.choose(target(Target::Access::mechanism, 4096), kPut, kRuns), TransferMode::alone)
      << "a put has no chunks";
  EXPECT_EQ(pipelined.choose(target(Target::Access::mapped, 64 * 1024), kGet, kRuns), TransferMode::cooperative)
      << "chunks between two mapped memories would be one copy too many";
}

TEST(SmTransferMode, ATransferOfMoreUnitsThanTheClaimWordCountsIsNotHelped) {
  const TransferModes modes{config(), {}};
  const std::uint64_t most = wire::kHelpUnit * wire::kMostHelpUnits;
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, most), kPut, kRuns), TransferMode::cooperative);
  EXPECT_EQ(modes.choose(target(Target::Access::mechanism, most + 1), kPut, kRuns), TransferMode::alone);
}

}  // namespace
}  // namespace opal::btl::sm
