// SPDX-License-Identifier: Apache-2.0
// The fault campaign: at each protocol step of steps.hpp a rank is killed, stopped, forked, or loses its connections,
// and the launcher is killed at each of its own steps.  For every one: the step was visited; no rank received wrong,
// repeated or missing data; every other rank ended by itself; nothing is left; and the job ended within kBound.
// CAMPAIGN_TABLE=FILE appends one row per case: docs/results/fault-campaign.md is made of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "tests/campaign/steps.hpp"
#include "tests/campaign/symbols.hpp"
#include "tests/runtime/launched_job.hpp"

namespace opal::campaign {

/// For the message of a failed case.
void PrintTo(const Step& step, std::ostream* out) { *out << step.object << " " << step.function; }

namespace {

using runtime::test::LaunchedJob;
using runtime::test::Outcome;
using ::testing::HasSubstr;
using ::testing::Not;

/// The bound on every job, from its start: opalrun ends a longer one with status 124.
constexpr const char* kBound = "40";

std::string path_of(const Step& step) {
  const std::filesystem::path launcher{OPALRUN_PATH};
  if (std::string_view{step.object} == kLauncher) return launcher;
  return launcher.parent_path().parent_path() / "lib" / step.object;
}

struct Result {
  Outcome outcome;
  std::string leftovers;
  pid_t visited = 0;  ///< the process that reached the step, 0: none did
  double seconds = 0;
};

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

pid_t visitor(const std::string& file) {
  pid_t pid = 0;
  std::ifstream{file} >> pid;
  return pid;
}

bool is_stopped(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::ostringstream text;
  text << file.rdbuf();
  const std::size_t end = text.str().rfind(')');
  return end != std::string::npos && text.str().substr(end + 2, 1) == "T";
}

/// Runs the job with a fail point; a rank that stops there is continued once it is seen to be stopped.
Result run(const Step& step, const std::string& action, const std::string& only, const std::string& mode = {}) {
  const auto offset = offset_of(path_of(step), step.function);
  EXPECT_TRUE(offset.has_value()) << step.object << " has no single function " << step.function;
  Result result;
  if (!offset.has_value()) return result;
  const std::string file = fmt::format("{}/opal-visit-{}", ::testing::TempDir(), ::getpid());
  std::filesystem::remove(file);
  std::vector<std::string> prefix{
      "env", "LD_PRELOAD=" FAIL_POINT_LIBRARY, only,
      fmt::format("FAIL_POINT={} {:x} {} {} {}", step.object, *offset, step.visit, action, file)};
  std::vector<std::string> arguments{"-n",
                                     std::to_string(step.ranks),
                                     "--oversubscribe",
                                     "--timeout",
                                     kBound,
                                     "--set",
                                     fmt::format("am_transports={}", step.transports)};
  if (*step.set != '\0') arguments.insert(arguments.end(), {"--set", step.set});
  if (!mode.empty()) arguments.push_back(mode);
  arguments.insert(arguments.end(), {CAMPAIGN_PROGRAM, step.program});
  if (action == "cut") arguments.emplace_back("abort");
  const auto begin = std::chrono::steady_clock::now();
  {
    LaunchedJob job{arguments, {}, prefix};
    if (action == "stop") {
      runtime::test::eventually([&] {
        result.visited = visitor(file);
        return (result.visited != 0 && is_stopped(result.visited)) || count(job.output(), "complete") == step.ranks;
      });
      if (result.visited != 0) ::kill(result.visited, SIGCONT);
    }
    result.outcome = job.wait();
    result.leftovers = job.leftovers();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.visited = visitor(file);
  std::filesystem::remove(file);
  return result;
}

void add_row(const Step& step, const std::string& action, const std::string& side, const Result& result) {
  const char* const table = std::getenv("CAMPAIGN_TABLE");
  if (table == nullptr) return;
  const std::string& out = result.outcome.out;
  std::ofstream{table, std::ios::app} << fmt::format(
      "| `{}` | {} | {} | {} | {} | {} | {} | {} | {:.1f} |\n", step.function, step.transports, step.program, action,
      side, result.outcome.status, count(out, "survived"), count(out, "complete"), result.seconds);
}

std::string name_of(const Step& step) {
  std::string name = fmt::format("{}_{}_{}", step.function, step.program, step.transports + 5);
  for (const char* prefix : {"opal::btl::", "opal::", "mpi_shim::", "runtime::"}) {
    if (name.starts_with(prefix)) name.erase(0, std::string_view{prefix}.size());
  }
  std::erase(name, ':');
  std::replace(name.begin(), name.end(), ',', '_');
  return name;
}
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
