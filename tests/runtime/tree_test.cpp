// SPDX-License-Identifier: Apache-2.0
// Jobs whose daemons form a tree of several levels: everything passes by inner daemons, which then die, stop, or are
// cut off.  With --radix 2 the launcher is above h1 and h5, h1 above h2 (above h3) and h4, h5 above h6 and h7.
#include <fmt/format.h>
#include <pmix_common.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/runtime/host_jobs.hpp"

namespace runtime::test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr unsigned kHosts = 7;
constexpr char kTimeout[] = "5";  // seconds: more than a busy machine makes a daemon that is well wait
constexpr char kAll[] = "h1:2,h2:2,h3:2,h4:2,h5:2,h6:2,h7:2";

class Tree : public HostJobs {
 protected:
  Tree() : HostJobs(kHosts) {}
  [[nodiscard]] std::unique_ptr<LaunchedJob> run(const std::string& radix, std::vector<std::string> program,
                                                 const std::string& input = {}) const {
    program.insert(program.begin(), {"--radix", radix, "--host", kAll, "--timeout", "50"});
    return start(program, input);
  }
  [[nodiscard]] std::unique_ptr<LaunchedJob> start_sleepers() const {
    return HostJobs::start_sleepers({"--radix", "2", "--daemon-timeout", kTimeout, "--host", kAll}, 2 * kHosts);
  }
};

/// Lines that begin with `text`.
unsigned count_of(const std::string& output, const std::string& text) {
  const auto lines = lines_of(output);
  return static_cast<unsigned>(
      std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.find(text) == 0; }));
}

TEST_F(Tree, RanksExchangeDataAlongIt) {
  for (const std::string radix : {"1", "2"}) {
    for (const std::string scenario : {"exchange", "collect", "names"}) {
      const auto job = run(radix, {helper("client_rank"), scenario});
      const Outcome outcome = job->wait();
      EXPECT_EQ(outcome.status, 0) << radix << " " << scenario << outcome.out << outcome.err;
      EXPECT_EQ(outcome.err, "");
      EXPECT_EQ(job->leftovers(), "");
    }
  }
}

TEST_F(Tree, ProcessesOfManyHostsConnect) {
  const auto connected = run("2", {helper("client_rank"), "connect"});
  const Outcome outcome = connected->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(count_of(outcome.out, "connected"), 2 * kHosts);
}

/// The launcher's host keeps the names: what is too long for the tree on the way there or back is refused.
TEST_F(Tree, ValuesLongerThanTheTreeTakesAreRefusedWithoutHarm) {
  const auto job = start({"--host", "h1:1,h2:1", "--timeout", "40", helper("client_rank"), "large_values"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(count_of(outcome.out, "rank "), 2U) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("refused"));
}

TEST_F(Tree, InputAndOutputTravelAlongItWhole) {
  std::string input;
  for (int i = 0; i < 100'000; ++i) input += fmt::format("line {}\n", i);
  const auto job = run("1", {"--stdin", "all", "sh", "-c", "cat; echo $OMPI_COMM_WORLD_RANK"}, input);
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(lines_of(outcome.out).size(), (100'000U + 1) * 2 * kHosts);
  EXPECT_EQ(job->leftovers(), "");
}

TEST_F(Tree, ARankKilledFarDownEndsTheJob) {
  const auto job = run("1", {"sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 13 ] && kill -9 $$; sleep 300"});
  expect_end(*job, 128 + SIGKILL, "on host h7) was killed by signal 9 (SIGKILL)");
}

TEST_F(Tree, AKilledInnerDaemonEndsTheJob) {
  const auto job = start_sleepers();
  kill_daemon(*job, 1, SIGKILL);
  expect_end(*job, 1, "the daemon of host h1");
}

TEST_F(Tree, AnInnerDaemonThatStopsIsNamedAndItsHostCleared) {
  const auto job = start_sleepers();
  kill_daemon(*job, 5, SIGSTOP);
  expect_end(*job, 1, "the daemon of host h5");
}

TEST_F(Tree, AStoppedDaemonFurtherDownIsNamed) {
  const auto job = start_sleepers();
  kill_daemon(*job, 2, SIGSTOP);
  expect_end(*job, 1, "the daemon of host h2");
}

TEST_F(Tree, TwoDaemonsOneAboveTheOtherMayDieAtOnce) {
  const auto job = start_sleepers();
  kill_daemon(*job, 2, SIGKILL);
  kill_daemon(*job, 1, SIGKILL);
  expect_end(*job, 1, "the daemon of host h");
}

TEST_F(Tree, APartitionAboveASubtreeEndsTheJobEverywhere) {
  const auto job = start_sleepers();
  hosts->set_link(1, false);
  expect_end(*job, 1, "the daemon of host h");
}

TEST_F(Tree, AKilledLauncherLeavesNothingOnAnyLevel) {
  const auto job = start_sleepers();
  ::kill(job->pid(), SIGKILL);
  EXPECT_EQ(job->wait().status, 128 + SIGKILL);
  EXPECT_EQ(job->leftovers(), "");
}

/// Its daemons hear nothing of it; they end their ranks although their connections are fine.
TEST_F(Tree, AStoppedLauncherIsLeftByItsDaemons) {
  const auto job = start_sleepers();
  ::kill(job->pid(), SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    const std::vector<pid_t> left = job->processes();
    return std::none_of(left.begin(), left.end(), [&](pid_t pid) {
      return hosts->holds(1, pid) || hosts->holds(4, pid) || hosts->holds(7, pid);
    });
  }));
}

/// Processor time that each process of the job has used, all its threads, in nanoseconds.
std::map<pid_t, std::uint64_t> processor_times(const LaunchedJob& job) {
  std::map<pid_t, std::uint64_t> times;
  for (const pid_t pid : job.processes()) {
    std::error_code gone;
    for (const auto& thread : std::filesystem::directory_iterator{fmt::format("/proc/{}/task", pid), gone}) {
      std::uint64_t ns = 0;
      std::ifstream{thread.path() / "schedstat"} >> ns;
      times[pid] += ns;
    }
  }
  return times;
}

/// Ranks that wait for something in their PMIx library, and all daemons: processor time, so that other load is no
/// matter.
TEST_F(Tree, IdleDaemonsAndRanksUseLessThanOnePercentOfACore) {
  const auto job = start({"--radix", "2", "--host", kAll, helper("client_rank"), "forever"});
  ASSERT_TRUE(eventually([&] { return count_of(job->output(), "up") == 2 * kHosts; }, std::chrono::seconds{60}));
  const auto begin = std::chrono::steady_clock::now();
  const auto before = processor_times(*job);
  std::this_thread::sleep_for(std::chrono::seconds{3});  // how long does not matter
  const auto after = processor_times(*job);
  const auto elapsed = std::chrono::nanoseconds{std::chrono::steady_clock::now() - begin};
  EXPECT_GT(before.size(), 3 * kHosts);
  for (const auto& [pid, used] : before) {
    ASSERT_TRUE(after.contains(pid)) << "process " << pid << " has ended";
    std::string name;
    std::ifstream{fmt::format("/proc/{}/comm", pid)} >> name;
    EXPECT_LT(static_cast<double>(after.at(pid) - used), 0.01 * static_cast<double>(elapsed.count())) << name;
  }
}

// --- --continuous

/// Whether the process is that rank of its job.
bool is_rank(pid_t pid, unsigned rank) {
  std::ifstream environment{fmt::format("/proc/{}/environ", pid)};
  for (std::string variable; std::getline(environment, variable, '\0');) {
    if (variable == fmt::format("OMPI_COMM_WORLD_RANK={}", rank)) return true;
  }
  return false;
}

TEST_F(Tree, AContinuousJobGoesOnWithoutARank) {
  std::vector<std::string> program{"--radix", "2", "--host", kAll, "--continuous", helper("client_rank"),
                                   "survive", "0", "1"};
  for (int rank = 0; rank < 14; ++rank) {
    if (rank != 4) program.push_back(std::to_string(rank));
  }
  const auto job = start(program);
  ASSERT_TRUE(eventually([&] { return count_of(job->output(), "up ") == 14; }, std::chrono::seconds{60}));
  for (const pid_t pid : job->processes()) {
    if (is_rank(pid, 4)) ::kill(pid, SIGKILL);
  }
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_EQ(count_of(outcome.out, "rank "), 13U) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("on host h3) was killed by signal 9 (SIGKILL); 13 ranks go on\n"));
  EXPECT_THAT(lines_of(outcome.err), SizeIs(1)) << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

/// Its daemon lives on, but no rank there comes to the fence that names the dead rank.
TEST_F(Tree, AFenceWithAHostThatHasLostItsOnlyRankFails) {
  std::vector<std::string> program{"--radix",
                                   "2",
                                   "--host",
                                   "h1:2,h2:2,h3:1,h4:2,h5:2",
                                   "--timeout",
                                   "40",
                                   "--continuous",
                                   helper("client_rank"),
                                   "survive",
                                   "0",
                                   "1",
                                   "0",
                                   "1",
                                   "2",
                                   "3",
                                   "5",
                                   "6",
                                   "7",
                                   "8"};
  const auto job = start(program);
  ASSERT_TRUE(eventually([&] { return count_of(job->output(), "up ") == 9; }, std::chrono::seconds{60}));
  for (const pid_t pid : job->processes()) {
    if (is_rank(pid, 4)) ::kill(pid, SIGKILL);
  }
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
  EXPECT_EQ(count_of(outcome.out, "rank "), 8U) << outcome.out << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

/// Rank 4 was on h3, where rank 5 lives on but takes no part.
TEST_F(Tree, AFenceWithADeadRankOfALivingHostFails) {
  for (const std::string how : {"left", "killed"}) {
    std::vector<std::string> program{"--radix", "2", "--host", kAll, "--timeout", "40"};
    if (how == "killed") program.push_back("--continuous");
    program.insert(program.end(), {helper("client_rank"), "miss", how, "4", "0", "2", "3", "6", "7", "13"});
    const auto job = start(program);
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.status, how == "killed" ? 128 + SIGKILL : 0) << outcome.err;
    EXPECT_EQ(count_of(outcome.out, "rank "), 6U) << how << "\n" << outcome.out << outcome.err;
    EXPECT_EQ(job->leftovers(), "");
  }
}

TEST_F(Tree, AFenceWithARankThatDiedBeforeItJoinedFails) {
  const auto job = start({"--host", "h1:2,h2:2", "--timeout", "40", "--continuous", "sh", "-c",
                          "[ $OMPI_COMM_WORLD_RANK = 3 ] && kill -9 $$; exec \"$@\"", "sh", helper("client_rank"),
                          "without", directory(), "0", "1", "2"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
  EXPECT_EQ(count_of(outcome.out, "rank "), 3U) << outcome.out << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

/// Each daemon asks the launcher for the data of one rank of another host, and the host itself for those of the other.
TEST_F(Tree, QuestionsForDataGoStraightToTheirHosts) {
  const auto job = run("2", {"--set", "log=debug", helper("client_rank"), "exchange"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(count_of(outcome.out, "rank "), 14U);
  EXPECT_THAT(outcome.err, HasSubstr("modex requests go directly to host ")) << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

TEST_F(Tree, EventsThatARankRaisesReachTheRanksOfAllHosts) {
  for (const std::string raiser : {"0", "7"}) {
    const auto job = run("2", {helper("client_rank"), "raise", raiser});
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    for (const std::string range : {"session", "namespace", "global"}) {
      const std::string line = fmt::format("event {} of rank {}: {}", PMIX_EXTERNAL_ERR_BASE - 7, raiser, range);
      EXPECT_GE(count_of(outcome.out, line), 13U) << outcome.out;
      EXPECT_LE(count_of(outcome.out, line), 14U) << "told twice\n" << outcome.out;
    }
    EXPECT_LE(count_of(outcome.out, fmt::format("event {}", PMIX_EXTERNAL_ERR_BASE - 8)), 2U)
        << "an event for one host went further\n"
        << outcome.out;
    EXPECT_EQ(job->leftovers(), "");
  }
}

/// h1's daemon never comes; h2's, below it, has joined long before h1 is given up.
TEST_F(Tree, AHostThatHangsAtTheStartDoesNotTakeThoseBelowItAlong) {
  const auto job = start_by("[ $1 = h1 ] && exec sleep 300; exec $agent \"$@\"",
                            {"--radix", "1", "--start-timeout", "4", "--host", "h1:1,h2:1,h3:1", "--continuous",
                             "--timeout", "40", "sh", "-c", "echo ran"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(count_of(outcome.out, "ran"), 2U) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the daemon of host h1 did not come within 4 s"));
}

/// More than the feeder sends ahead, so that it waits for h1, whose rank reads nothing.
TEST_F(Tree, InputForAllGoesOnWhenOneOfThemIsLost) {
  std::string input;
  for (int i = 0; i < 100'000; ++i) input += fmt::format("line {}\n", i);
  const auto job = start({"--radix", "2", "--host", "h1:1,h2:1,h3:1", "--continuous", "--timeout", "40", "--stdin",
                          "all", "sh", "-c", "echo up; [ $OMPI_COMM_WORLD_RANK = 0 ] && exec sleep 300; wc -l"},
                         input);
  ASSERT_TRUE(eventually([&] { return count_of(job->output(), "up") == 3; }, std::chrono::seconds{60}));
  kill_daemon(*job, 1, SIGKILL);
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(count_of(outcome.out, "100000"), 2U) << outcome.out << outcome.err;
}

TEST_F(Tree, ARequestForTheDataOfARankThatEndsWithoutACommitIsAnswered) {
  const auto job =
      start({"--host", "h1:1,h2:1", "--continuous", "--timeout", "40", helper("client_rank"), "ask_the_dead"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
  EXPECT_EQ(outcome.out, "answered\n");
  EXPECT_EQ(job->leftovers(), "");
}

/// h1 is above h2, h3 and h4, which find new places.
TEST_F(Tree, AContinuousJobGoesOnWithoutAnInnerDaemon) {
  std::vector<std::string> program{
      "--radix", "2", "--daemon-timeout", "4", "--host", kAll, "--continuous", helper("client_rank"), "survive",
      "1",       "2"};
  for (int rank = 2; rank < 14; ++rank) program.push_back(std::to_string(rank));
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const auto job = start(program);
    ASSERT_TRUE(eventually([&] { return count_of(job->output(), "up ") == 14; }, std::chrono::seconds{60}));
    kill_daemon(*job, 1, signal);
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(count_of(outcome.out, "rank "), 12U) << outcome.out << outcome.err;
    EXPECT_EQ(count_of(outcome.out, "host h1 is down"), 12U) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr("the daemon of host h1"));
    EXPECT_THAT(outcome.err, HasSubstr("; 12 ranks go on\n"));
    // One that was only stopped may wake up and say that it was given up.
    EXPECT_LE(lines_of(outcome.err).size(), signal == SIGKILL ? 1U : 2U) << outcome.err;
    EXPECT_EQ(job->leftovers(), "");
  }
}

}  // namespace
}  // namespace runtime::test
