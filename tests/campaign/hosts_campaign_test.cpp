// SPDX-License-Identifier: Apache-2.0
// The fault campaign on several hosts, which are made of namespaces: at each step of host_steps.hpp a daemon is killed,
// stopped, or loses its connections to other hosts, the launcher is killed or loses its own, and a rank is killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "opal/core/environment.hpp"
#include "tests/campaign/fault_job.hpp"
#include "tests/campaign/host_steps.hpp"
#include "tests/runtime/host_jobs.hpp"

namespace opal::campaign {

void PrintTo(const DaemonStep& step, std::ostream* out) { PrintTo(step.step, out); }
void PrintTo(const RankStep& step, std::ostream* out) { PrintTo(step.step, out); }

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kAborted = 3;  // as campaign_program does
constexpr unsigned kHosts = 2;

class OnHosts : public runtime::test::HostJobs {
 protected:
  OnHosts() : HostJobs(kHosts) {}

  /// A rank on the launcher's host, one on h1, one on h2.
  [[nodiscard]] Place three_hosts(const std::string& name) const { return on(name + ":1,h1:1,h2:1"); }
  /// The daemons form a chain: the launcher, h1, h2.
  [[nodiscard]] Place on(const std::string& list) const {
    return {.prefix = hosts->on_network_of(1),
            .options = {"--launch-agent", hosts->agent(), "--grace", "0.5", "--radix", "1", "--stdin", "all", "--host",
                        list},
            .input = std::string(200'000, 'x')};
  }

  /// Runs the job, which reaches the step, brings no wrong data and leaves nothing.
  [[nodiscard]] Result act(const Step& step, const std::string& action, const std::string& only, const Place& place,
                           const std::string& side) const {
    Result result = run(step, action, only, {}, place);
    for (unsigned number = 1; number <= kHosts; ++number) {
      for (const auto& left : std::filesystem::directory_iterator{hosts->path_on(number, "/dev/shm")}) {
        result.leftovers += fmt::format("shared memory {} of h{}; ", left.path().string(), number);
      }
    }
    SCOPED_TRACE(told_by(result));
    EXPECT_NE(result.visited, 0) << "no process reached the step";
    EXPECT_EQ(result.leftovers, "");
    EXPECT_THAT(result.outcome.out, Not(HasSubstr("WRONG DATA")));
    EXPECT_NE(result.outcome.status, 124) << "the job waits for ever";
    add_row(step, action, side, result);
    return result;
  }

  static std::string told_by(const Result& result) {
    return fmt::format("out:\n{}\nerr:\n{}", result.outcome.out, result.outcome.err);
  }
};

/// What opalrun says of the job.
std::vector<std::string> said(const Result& result) {
  std::vector<std::string> lines = runtime::test::lines_of(result.outcome.err);
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("opalrun: "); });
  return lines;
}

/// The end that the job has where no fault is seen.
bool ended_as_planned(const Step& step, const Result& result) {
  if (std::string_view{step.program} == "aborted") {
    return result.outcome.status == kAborted && said(result).size() == 1 &&
           said(result)[0].find("rank 1 ") != std::string::npos;
  }
  return result.outcome.status == 0 && count(result.outcome.out, "complete") == step.ranks && said(result).empty();
}

void expect_host_named(const Result& result, const std::string& host) {
  EXPECT_EQ(result.outcome.status, 1);
  ASSERT_EQ(said(result).size(), 1U);
  EXPECT_THAT(said(result)[0], HasSubstr("host " + host));
}

class AtEveryStepOfADaemon : public OnHosts, public ::testing::WithParamInterface<DaemonStep> {
 protected:
  [[nodiscard]] Result act(const std::string& action) const {
    const auto& [step, host, phase] = GetParam();
    Place place = three_hosts(opal::host_name());
    place.prefix.insert(place.prefix.end(), {"env", fmt::format("FAIL_HOST={}", host)});
    return OnHosts::act(step, action, "FAIL_PROGRAM=opald", place, host);
  }
};

TEST_P(AtEveryStepOfADaemon, ItsDeathEndsTheJobWithTheHostNamedAndNothingLeft) {
  const Result result = act("kill");
  SCOPED_TRACE(told_by(result));
  if (GetParam().phase == Phase::ending && ended_as_planned(GetParam().step, result)) return;
  expect_host_named(result, GetParam().host);
}

TEST_P(AtEveryStepOfADaemon, ADaemonThatIsStoppedForAWhileDelaysTheJobAndNoMore) {
  const Result result = act("stop");
  EXPECT_TRUE(ended_as_planned(GetParam().step, result)) << told_by(result);
}

TEST_P(AtEveryStepOfADaemon, ConnectionsThatAreCutAreMadeAnewOrEndTheJobWithTheHostNamed) {
  const Result result = act("cut");
  SCOPED_TRACE(told_by(result));
  if (!ended_as_planned(GetParam().step, result)) expect_host_named(result, GetParam().host);
}

std::string name_of_daemon_step(const ::testing::TestParamInfo<DaemonStep>& info) {
  return fmt::format("{}_{}_{}", name_of(info.param.step), info.param.host, info.param.step.visit);
}
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryStepOfADaemon, ::testing::ValuesIn(kDaemonSteps), name_of_daemon_step);

class AtEveryStepOfTheLauncherOfHosts : public OnHosts, public ::testing::WithParamInterface<Step> {
 protected:
  [[nodiscard]] Result act(const std::string& action) const {
    return OnHosts::act(GetParam(), action, "FAIL_PROGRAM=opalrun", three_hosts(opal::host_name()), "launcher");
  }
};

TEST_P(AtEveryStepOfTheLauncherOfHosts, ItsDeathEndsEveryRankAndLeavesNothingOnAnyHost) {
  const Result result = act("kill");
  EXPECT_EQ(result.outcome.status, 128 + SIGKILL) << told_by(result);
}

TEST_P(AtEveryStepOfTheLauncherOfHosts, ConnectionsThatAreCutAreMadeAnewOrEndTheJobWithAHostNamed) {
  const Result result = act("cut");
  SCOPED_TRACE(told_by(result));
  if (!ended_as_planned(GetParam(), result)) expect_host_named(result, "h");
}

std::string name_of_launcher_step(const ::testing::TestParamInfo<Step>& info) { return name_of(info.param); }
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryStepOfTheLauncherOfHosts, ::testing::ValuesIn(kLauncherHostSteps),
                         name_of_launcher_step);

class AtEveryStepOfARemoteRank : public OnHosts, public ::testing::WithParamInterface<RankStep> {};

TEST_P(AtEveryStepOfARemoteRank, ItsDeathEndsTheJobWithTheRankNamedAndNothingLeft) {
  const auto& [step, rank] = GetParam();
  const Result result = act(step, "kill", fmt::format("FAIL_RANK={}", rank), on("h1:2,h2:2"), std::to_string(rank));
  SCOPED_TRACE(told_by(result));
  EXPECT_EQ(result.outcome.status, 128 + SIGKILL);
  ASSERT_EQ(said(result).size(), 1U);
  EXPECT_THAT(said(result)[0],
              HasSubstr(fmt::format("rank {} (pid {} on host h{})", rank, result.visited, 1 + rank / 2)));
}

std::string name_of_rank_step(const ::testing::TestParamInfo<RankStep>& info) { return name_of(info.param.step); }
INSTANTIATE_TEST_SUITE_P(Steps, AtEveryStepOfARemoteRank, ::testing::ValuesIn(kRankHostSteps), name_of_rank_step);

}  // namespace
}  // namespace opal::campaign
