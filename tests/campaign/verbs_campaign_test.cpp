// SPDX-License-Identifier: Apache-2.0
// The fault campaign over verbs: as campaign_test.cpp, at the steps of verbs_steps.hpp.  Two ranks of one host, which
// reach each other through its RDMA device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "tests/campaign/fault_job.hpp"
#include "tests/campaign/verbs_steps.hpp"

namespace opal::campaign {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class OverVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::error_code none; std::filesystem::is_empty("/sys/class/infiniband", none) || none) {
      GTEST_SKIP() << "needs rdma: tests/vm/suite runs this in a guest";
    }
    // Also where the device's atomics are not atomic with the processor's, which touches none of these words.
    ::setenv("OPAL_BTL_VERBS_ATOMICS", "device", 1);
  }

  /// In the rank that comes first: which one connects and which one accepts is not known before.
  static Result act(const Step& step, const std::string& action, const std::string& mode = {}) {
    const Result result = run(step, action, "FAIL_FIRST=1", mode);
    SCOPED_TRACE(told_by(result));
    EXPECT_NE(result.visited, 0) << "no rank reached the step";
    EXPECT_EQ(result.leftovers, "");
    EXPECT_THAT(result.outcome.out, Not(HasSubstr("WRONG DATA")));
    add_row(step, mode.empty() ? action : action + ", " + mode, "first", result);
    return result;
  }
  static std::string told_by(const Result& result) {
    return fmt::format("out:\n{}\nerr:\n{}", result.outcome.out, result.outcome.err);
  }
};

class AtEveryVerbsStep : public OverVerbs, public ::testing::WithParamInterface<Step> {
 protected:
  static void expect_complete(const Result& result) {
    SCOPED_TRACE(told_by(result));
    EXPECT_EQ(result.outcome.status, 0);
    EXPECT_EQ(count(result.outcome.out, "complete"), GetParam().ranks);
  }
};

TEST_P(AtEveryVerbsStep, ADeathEndsTheJobWithTheRankNamedAndNothingLeft) {
  const Result result = act(GetParam(), "kill");
  SCOPED_TRACE(told_by(result));
  EXPECT_EQ(result.outcome.status, 128 + SIGKILL);
  EXPECT_THAT(result.outcome.err, ContainsRegex(fmt::format("rank [01] \\(pid {}", result.visited)));
}

TEST_P(AtEveryVerbsStep, TheOtherOfAJobThatGoesOnEndsEveryWaitForARankThatIsKilled) {
  const Result result = act(GetParam(), "kill", "--continuous");
  SCOPED_TRACE(told_by(result));
  EXPECT_NE(result.outcome.status, 0);
  EXPECT_THAT(result.outcome.err, Not(HasSubstr("did not end within"))) << "a rank waits for ever";
}

TEST_P(AtEveryVerbsStep, ARankThatIsStoppedForAWhileDelaysTheJobAndNoMore) { expect_complete(act(GetParam(), "stop")); }

TEST_P(AtEveryVerbsStep, QueuePairsInTheErrorStateEndTheTrafficWithAnErrorOrNotAtAll) {
  const Result result = act(GetParam(), "cut");
  SCOPED_TRACE(told_by(result));
  EXPECT_NE(result.outcome.status, 124) << "a rank waits for ever";
}

// The device does not say whether it has carried out what it flushes.
TEST_F(OverVerbs, AnAtomicThatMayHaveBeenCarriedOutFailsAndIsNotPostedAgain) {
  const Result result = act(one_sided_step("opal::btl::verbs::OneSidedQueue::post_atomic", "atomics", 2), "cut");
  SCOPED_TRACE(told_by(result));
  EXPECT_EQ(result.outcome.status, 3);
  EXPECT_EQ(count(result.outcome.out, "complete"), 0);
}

/// Not for registered address spaces: they have to be there before the first thread, and this action makes one.
class AtEveryVerbsStepWithThreads : public AtEveryVerbsStep {};

TEST_P(AtEveryVerbsStepWithThreads, AForkedChildDisturbsNothing) { expect_complete(act(GetParam(), "fork")); }

std::string name_of_case(const ::testing::TestParamInfo<Step>& info) {
  return fmt::format("{}_{}", name_of(info.param), info.param.visit);
}
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryVerbsStep, ::testing::ValuesIn(kVerbsSteps), name_of_case);
INSTANTIATE_TEST_SUITE_P(Spaces, AtEveryVerbsStep, ::testing::ValuesIn(kAddressSpaceSteps), name_of_case);
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryVerbsStepWithThreads, ::testing::ValuesIn(kVerbsSteps), name_of_case);

}  // namespace
}  // namespace opal::campaign
