// SPDX-License-Identifier: Apache-2.0
// The harness itself: a failing seed is the last one that runs, and its command is printed.
#include "tests/sim/seeds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <cstdlib>

namespace opal::test {
namespace {

void fail_at_three() {
  for_each_seed(10, [](std::uint64_t seed) { EXPECT_LT(seed, 3U); });
}

TEST(Seeds, TheFirstFailingSeedPrintsItsReplayCommand) {
  EXPECT_THAT(
      replay_command(3),
      ::testing::MatchesRegex("OPAL_SIM_SEED=3 .*sim_am_test.* --gtest_filter=Seeds.TheFirstFailingSeedPrints.*"));
  ::testing::TestPartResultArray failures;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter{&failures};
    fail_at_three();
  }
  ASSERT_GE(failures.size(), 1);
  EXPECT_THAT(failures.GetTestPartResult(0).message(), ::testing::HasSubstr("replay: OPAL_SIM_SEED=3 "));
}

TEST(Seeds, TheEnvironmentChoosesOneSeed) {
  ::setenv("OPAL_SIM_SEED", "7", 1);
  std::vector<std::uint64_t> seen;
  for_each_seed(10, [&](std::uint64_t seed) { seen.push_back(seed); });
  ::unsetenv("OPAL_SIM_SEED");
  EXPECT_THAT(seen, ::testing::ElementsAre(7));
}

}  // namespace
}  // namespace opal::test
