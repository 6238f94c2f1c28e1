// SPDX-License-Identifier: Apache-2.0
// The fault campaign: at each protocol step of steps.hpp a rank is killed, stopped, forked, or loses its connections,
// and the launcher is killed at each of its own steps.  For every one: the step was visited; no rank received wrong,
// repeated or missing data; every other rank ended by itself; nothing is left; and the job ended within its bound.
// CAMPAIGN_TABLE=FILE appends one row per case: docs/results/fault-campaign.md is made of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/campaign/fault_job.hpp"

namespace opal::campaign {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string name_of_case(const ::testing::TestParamInfo<Step>& info) { return name_of(info.param); }

class AtEveryStep : public ::testing::TestWithParam<Step> {};

TEST_P(AtEveryStep, ADeathEndsTheJobWithTheRankNamedAndNothingLeft) {
  int visited = 0;
  for (const int rank : {0, 1}) {
    const Result result = run(GetParam(), "kill", fmt::format("FAIL_RANK={}", rank));
    SCOPED_TRACE(fmt::format("rank {}, out:\n{}\nerr:\n{}", rank, result.outcome.out, result.outcome.err));
    EXPECT_EQ(result.leftovers, "");
    EXPECT_THAT(result.outcome.out, Not(HasSubstr("WRONG DATA")));
    if (result.visited == 0) {
      EXPECT_EQ(result.outcome.status, 0);
      EXPECT_EQ(count(result.outcome.out, "complete"), GetParam().ranks);
      continue;
    }
    ++visited;
    add_row(GetParam(), "kill", std::to_string(rank), result);
    EXPECT_EQ(result.outcome.status, 128 + SIGKILL);
    EXPECT_THAT(result.outcome.err, HasSubstr(fmt::format("rank {} (pid {}", rank, result.visited)));
  }
  EXPECT_GT(visited, 0) << "no rank reached the step";
}

TEST_P(AtEveryStep, TheOthersOfAJobThatGoesOnEndEveryWaitForARankThatIsKilled) {
  for (const int rank : {0, 1}) {
    const Result result = run(GetParam(), "kill", fmt::format("FAIL_RANK={}", rank), "--continuous");
    SCOPED_TRACE(fmt::format("rank {}, out:\n{}\nerr:\n{}", rank, result.outcome.out, result.outcome.err));
    EXPECT_EQ(result.leftovers, "");
    EXPECT_THAT(result.outcome.out, Not(HasSubstr("WRONG DATA")));
    EXPECT_THAT(result.outcome.err, Not(HasSubstr("did not end within"))) << "a rank waits for ever";
    EXPECT_EQ(result.outcome.status == 0, result.visited == 0);
    if (result.visited != 0) add_row(GetParam(), "kill, continuous", std::to_string(rank), result);
  }
}

TEST_P(AtEveryStep, ARankThatIsStoppedForAWhileDelaysTheJobAndNoMore) {
  for (const int rank : {0, 1}) {
    const Result result = run(GetParam(), "stop", fmt::format("FAIL_RANK={}", rank));
    SCOPED_TRACE(fmt::format("rank {}, out:\n{}\nerr:\n{}", rank, result.outcome.out, result.outcome.err));
    EXPECT_EQ(result.leftovers, "");
    EXPECT_EQ(result.outcome.status, 0);
    EXPECT_EQ(count(result.outcome.out, "complete"), GetParam().ranks);
    if (result.visited == 0) continue;
    add_row(GetParam(), "stop", std::to_string(rank), result);
    return;
  }
  ADD_FAILURE() << "no rank reached the step";
}

TEST_P(AtEveryStep, AForkedChildThatKeepsEveryDescriptorDisturbsNothing) {
  for (const int rank : {0, 1}) {
    const Result result = run(GetParam(), "fork", fmt::format("FAIL_RANK={}", rank));
    SCOPED_TRACE(fmt::format("rank {}, out:\n{}\nerr:\n{}", rank, result.outcome.out, result.outcome.err));
    EXPECT_EQ(result.leftovers, "");
    EXPECT_EQ(result.outcome.status, 0);
    EXPECT_EQ(count(result.outcome.out, "complete"), GetParam().ranks);
    if (result.visited == 0) continue;
    add_row(GetParam(), "fork", std::to_string(rank), result);
    return;
  }
  ADD_FAILURE() << "no rank reached the step";
}

INSTANTIATE_TEST_SUITE_P(Steps, AtEveryStep, ::testing::ValuesIn(kSteps), name_of_case);

class AtEveryStepOverTcp : public ::testing::TestWithParam<Step> {};

TEST_P(AtEveryStepOverTcp, ConnectionsThatAreCutEndTheTrafficWithAnErrorOrNotAtAll) {
  for (const int rank : {0, 1}) {
    const Result result = run(GetParam(), "cut", fmt::format("FAIL_RANK={}", rank));
    SCOPED_TRACE(fmt::format("rank {}, out:\n{}\nerr:\n{}", rank, result.outcome.out, result.outcome.err));
    EXPECT_EQ(result.leftovers, "");
    EXPECT_THAT(result.outcome.out, Not(HasSubstr("WRONG DATA")));
    EXPECT_NE(result.outcome.status, 124) << "a rank waits for ever";
    if (result.visited == 0) continue;
    add_row(GetParam(), "cut", std::to_string(rank), result);
    return;
  }
  ADD_FAILURE() << "no rank reached the step";
}

std::vector<Step> steps_over_tcp() {
  std::vector<Step> steps;
  std::copy_if(kSteps.begin(), kSteps.end(), std::back_inserter(steps),
               [](const Step& step) { return std::string_view{step.transports} == kTcp; });
  return steps;
}
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryStepOverTcp, ::testing::ValuesIn(steps_over_tcp()), name_of_case);

// A transport reports the death of a peer to which it is connected.  Of the other ones the launcher tells.
TEST(WhereAJobGoesOn, ARankThatDiesBeforeItIsConnectedEndsEveryWaitForIt) {
  for (const char* transports : {kSm, kTcp}) {
    const Step step{.function = "opal::am::Context::connect", .transports = transports};
    const Result result = run(step, "kill", "FAIL_RANK=1", "--continuous");
    SCOPED_TRACE(fmt::format("out:\n{}\nerr:\n{}", result.outcome.out, result.outcome.err));
    EXPECT_NE(result.visited, 0);
    EXPECT_EQ(result.leftovers, "");
    EXPECT_EQ(result.outcome.status, 128 + SIGKILL);
    EXPECT_EQ(count(result.outcome.out, "survived"), step.ranks - 1);
    add_row(step, "kill, continuous", "1", result);
  }
}

class AtEveryStepOfTheLauncher : public ::testing::TestWithParam<Step> {};

TEST_P(AtEveryStepOfTheLauncher, ItsDeathEndsEveryRankAndLeavesNothing) {
  const Result result = run(GetParam(), "kill", "FAIL_PROGRAM=opalrun");
  SCOPED_TRACE(fmt::format("out:\n{}\nerr:\n{}", result.outcome.out, result.outcome.err));
  EXPECT_NE(result.visited, 0) << "the launcher did not reach the step";
  EXPECT_EQ(result.outcome.status, 128 + SIGKILL);
  EXPECT_EQ(result.leftovers, "");
  EXPECT_THAT(result.outcome.out, Not(HasSubstr("WRONG DATA")));
  add_row(GetParam(), "kill", "launcher", result);
}
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryStepOfTheLauncher, ::testing::ValuesIn(kLauncherSteps), name_of_case);

}  // namespace
}  // namespace opal::campaign
