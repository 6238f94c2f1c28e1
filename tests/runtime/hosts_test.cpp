// SPDX-License-Identifier: Apache-2.0
// Jobs on four hosts made of namespaces: launched, used, and ended in every way.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "opal/core/environment.hpp"
#include "tests/harness/process.hpp"
#include "tests/runtime/flood.hpp"
#include "tests/runtime/host_jobs.hpp"

namespace runtime::test {
namespace {

using opal::test::state_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kTimeout[] = "5";  // seconds: more than a busy machine makes a daemon that is well wait
constexpr char kAll[] = "h1:4,h2:4,h3:4,h4:4";

class Hosts : public HostJobs {
 protected:
  Hosts() : HostJobs(4) {}
  /// 16 ranks.
  [[nodiscard]] std::unique_ptr<LaunchedJob> start_sleepers() const {
    return HostJobs::start_sleepers({"--daemon-timeout", kTimeout, "--host", kAll}, 16);
  }
};

TEST_F(Hosts, SixteenRanksKnowWhereTheyAre) {
  const auto job =
      start({"--host", kAll, "sh", "-c",
             "echo $(hostname) $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK of $OMPI_COMM_WORLD_LOCAL_SIZE"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::set<std::string> expected;
  for (int rank = 0; rank < 16; ++rank) expected.insert(fmt::format("h{} {} {} of 4", rank / 4 + 1, rank, rank % 4));
  const auto lines = lines_of(outcome.out);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), expected);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(job->leftovers(), "");
}

/// A stand-in for ssh hands the words of the command to a shell, as ssh does on the other host.
TEST_F(Hosts, SshStartsADaemonWhosePathAShellWouldTakeApart) {
  namespace fs = std::filesystem;
  const fs::path original = fs::path{OPALRUN_PATH}.parent_path();
  const fs::path programs = fs::path{directory()} / "it's $HOME; here" / "bin";
  fs::create_directories(programs);
  for (const char* const program : {"opalrun", "opald"}) fs::copy_file(original / program, programs / program);
  fs::create_directory_symlink(original / "../lib", programs / "../lib");
  const fs::path ssh = fs::path{directory()} / "ssh";
  std::ofstream{ssh} << "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nhost=$2; shift 2\nexec " << hosts->agent()
                     << " $host sh -c \"$*\"\n";
  fs::permissions(ssh, fs::perms::owner_all);
  std::vector<std::string> prefix = hosts->on_network_of(1);
  prefix.insert(prefix.end(), {"env", fmt::format("PATH={}:{}", directory(), *opal::environment("PATH")), "sh", "-c",
                               "opalrun=$0; shift; exec \"$opalrun\" \"$@\"", programs / "opalrun"});
  LaunchedJob job{{"--grace", "0.5", "--host", "h1:1,h2:1", "sh", "-c", "hostname"}, {}, prefix};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("h1", "h2"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST_F(Hosts, MappingByNodeGoesRoundTheHosts) {
  const auto job = start({"-n", "6", "--map-by", "node", "--display", "map", "--host", "h1:4,h2:1,h3:2", "sh", "-c",
                          "echo $(hostname) $OMPI_COMM_WORLD_RANK"});
  const Outcome outcome = job->wait();
  EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("h1 0", "h2 1", "h3 2", "h1 3", "h3 4", "h1 5"));
  EXPECT_THAT(outcome.err, HasSubstr("opalrun: h1 (4 slots): ranks 0,3,5\n"));
  EXPECT_THAT(outcome.err, HasSubstr("opalrun: h2 (1 slot): rank 1\n"));
  EXPECT_THAT(outcome.err, HasSubstr("opalrun: rank 1 is bound to cpu"));
}

TEST_F(Hosts, RanksExchangeDataThroughTheirServers) {
  const auto job = start({"--host", kAll, helper("client_rank"), "exchange"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

/// The launcher's own ranks run, and ask those of other hosts, before the daemons there have come.
TEST_F(Hosts, RanksOfTheLaunchersHostMayBeFirst) {
  const std::string all = opal::host_name() + ":2,h2:2";
  for (const char* const scenario : {"without_fence", "keys", "names", "collect"}) {
    const auto job = start({"--host", all, "--timeout", "40", "--bind", "none", helper("client_rank"), scenario});
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.status, 0) << scenario << ": " << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err, "") << scenario;
    EXPECT_EQ(job->leftovers(), "");
  }
}

TEST_F(Hosts, ProgramsTalkAcrossHosts) {
  for (const std::vector<std::string>& program :
       {std::vector<std::string>{RING_PATH}, std::vector<std::string>{MPI_PROGRAM_PATH, MPI_MATRIX_PATH}}) {
    std::vector<std::string> arguments{"--host", kAll};
    arguments.insert(arguments.end(), program.begin(), program.end());
    const auto job = start(arguments);
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.status, 0) << program[0] << outcome.out << outcome.err;
    EXPECT_EQ(job->leftovers(), "");
  }
}

TEST_F(Hosts, OutputOfManyMegabytesArrivesWholeAndInWholeLines) {
  const auto job = start({"--host", "h1:1,h2:1", "sh", "-c", "seq 1 300000 | sed s/^/$OMPI_COMM_WORLD_RANK:/"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 600'000U);
  int next[2] = {1, 1};
  for (const std::string& line : lines) {
    ASSERT_TRUE(line.starts_with("0:") || line.starts_with("1:")) << line;
    ASSERT_EQ(line.substr(2), std::to_string(next[line[0] - '0']++));
  }
}

/// What launcher and daemons hold back of their ranks' output is bounded, however much it is.
TEST_F(Hosts, MuchOutputNeedsLittleMemoryOfLauncherAndDaemons) {
  for (const std::vector<std::string>& names : {std::vector<std::string>{"h2:1"}, {opal::host_name() + ":1", "h2:1"}}) {
    const std::uint64_t lines = kFloodLines / names.size();
    const auto job =
        start({"--host", fmt::format("{}", fmt::join(names, ",")), helper("flood_rank"), std::to_string(lines)});
    expect_flood(*job, static_cast<unsigned>(names.size()), lines, 16 << 10);
    EXPECT_EQ(job->leftovers(), "");
  }
}

/// Each agent dawdles between its two lines, so that those of agents that run side by side would be mixed.
TEST_F(Hosts, NoMoreAgentsRunAtATimeThanAgentsSays) {
  const std::string log = directory() + "/agents";
  const auto job = start_by(fmt::format("echo begin $1 >> {0}; sleep 0.3; echo end $1 >> {0}; exec $agent \"$@\"", log),
                            {"--agents", "1", "--radix", "1", "--host", "h1:1,h2:1,h3:1", "sh", "-c", "echo up"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(lines_of(outcome.out), SizeIs(3));
  std::ifstream file{log};
  const std::string seen{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_THAT(lines_of(seen), ElementsAre("begin h1", "end h1", "begin h2", "end h2", "begin h3", "end h3"));
  EXPECT_EQ(job->leftovers(), "");
}

/// The ranks write for ever.
TEST_F(Hosts, AReaderThatGoesAwayEndsTheJobAsInAPipeline) {
  const std::string file = directory() + "/status";
  const std::string command = fmt::format(
      "{{ {} {} --launch-agent {} --timeout 40 --host h2:2 yes 2>/dev/null; echo $? > {}; }} | head -n 1 >/dev/null",
      fmt::join(hosts->on_network_of(1), " "), OPALRUN_PATH, hosts->agent(), file);
  EXPECT_EQ(std::system(command.c_str()), 0);
  int status = -1;
  std::ifstream{file} >> status;
  EXPECT_EQ(status, 128 + SIGPIPE);
}

TEST_F(Hosts, RankZeroOfAnotherHostReadsTheLaunchersInputToItsEnd) {
  std::string input;
  for (int i = 0; i < 200'000; ++i) input += fmt::format("line {}\n", i);
  const auto all = start({"--host", "h2:2", "sh", "-c", "cat; [ $OMPI_COMM_WORLD_RANK = 0 ] || echo other"}, input);
  const Outcome outcome = all->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::string out = outcome.out;
  const std::size_t other = out.find("other\n");
  ASSERT_NE(other, std::string::npos);
  EXPECT_TRUE(out.erase(other, 6) == input) << out.size() << " bytes of " << input.size();
  // A rank that reads one line only holds nothing up.
  const auto head = start({"--host", "h2:1", "head", "-n", "1"}, input);
  const Outcome first = head->wait();
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, "line 0\n");
}

TEST_F(Hosts, InputReachesEveryRankOnAllHostsOrOneOfThem) {
  std::string input;
  for (int i = 0; i < 100'000; ++i) input += fmt::format("line {}\n", i);
  const auto count = [&](const std::string& target) {
    const auto job = start({"--host", opal::host_name() + ":2,h2:2,h3:2", "--stdin", target, "wc", "-c"}, input);
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(job->leftovers(), "");
    return lines_of(outcome.out);
  };
  const std::string all = std::to_string(input.size());
  EXPECT_THAT(count("all"), UnorderedElementsAre(all, all, all, all, all, all));
  EXPECT_THAT(count("3"), UnorderedElementsAre(all, "0", "0", "0", "0", "0"));
}

TEST_F(Hosts, RankZeroOfAnotherHostMayReadADevice) {
  auto prefix = hosts->on_network_of(1);
  prefix.insert(prefix.end(), {"sh", "-c", "exec \"$@\" < /dev/null", "sh"});
  LaunchedJob job{{"--launch-agent", hosts->agent(), "--host", "h2:1", "wc", "-c"}, {}, prefix};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "0\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Hosts, AKilledRankEndsTheJob) {
  const auto job = start({"--host", kAll, "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 9 ] && kill -9 $$; sleep 300"});
  expect_end(*job, 128 + SIGKILL, "on host h3) was killed by signal 9 (SIGKILL)");
}

TEST_F(Hosts, AKilledDaemonEndsTheJob) {
  const auto job = start_sleepers();
  kill_daemon(*job, 0, SIGKILL);
  expect_end(*job, 1, "is lost");
}

TEST_F(Hosts, AKilledLauncherLeavesNothing) {
  const auto job = start_sleepers();
  ::kill(job->pid(), SIGKILL);
  EXPECT_EQ(job->wait().status, 128 + SIGKILL);
  EXPECT_EQ(job->leftovers(), "");
}

/// Longer than a daemon that hears nothing lives.
TEST_F(Hosts, AStoppedJobGoesOnWhenItIsContinued) {
  const auto job =
      start({"--daemon-timeout", kTimeout, "--radix", "2", "--host", kAll, "sh", "-c", "echo up; exec sleep 300"});
  const auto ranks = [&](char state) {  // in this state, or with 0 all
    return std::ranges::count_if(job->processes(), [&](pid_t pid) {
      std::string comm;
      std::ifstream{fmt::format("/proc/{}/comm", pid)} >> comm;
      return comm == "sleep" && (state == 0 || state_of(pid) == state);
    });
  };
  ASSERT_TRUE(eventually([&] { return ranks(0) == 16; }, std::chrono::seconds{60})) << job->output();
  ::kill(job->pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(job->pid()) == 'T' && ranks('T') == 16; })) << ranks('T');
  EXPECT_FALSE(eventually([&] { return ranks(0) != 16; }, std::chrono::seconds{2 * std::stoi(kTimeout)}));
  ::kill(job->pid(), SIGCONT);
  EXPECT_TRUE(eventually([&] { return ranks('T') == 0; }));
  EXPECT_EQ(ranks(0), 16);
  // A stopped job can be ended too.
  ::kill(job->pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(job->pid()) == 'T'; }));
  ::kill(job->pid(), SIGKILL);
  EXPECT_EQ(job->wait().status, 128 + SIGKILL);
  EXPECT_EQ(job->leftovers(), "");
}

TEST_F(Hosts, AStoppedDaemonIsFoundAndItsHostCleared) {
  const auto job = start_sleepers();
  kill_daemon(*job, 0, SIGSTOP);
  expect_end(*job, 1, fmt::format("has not answered for {} s", kTimeout));
}

TEST_F(Hosts, ACrashedHostEndsTheJob) {
  const auto job = start_sleepers();
  hosts->crash(3);
  expect_words(*job, 1, "host h3");
  // No process is left there to remove files; the next job on that host does.
  EXPECT_TRUE(eventually([&] { return job->processes().empty(); }));
}

TEST_F(Hosts, APartitionEndsTheJobOnBothSides) {
  const auto job = start_sleepers();
  hosts->set_link(2, false);
  expect_end(*job, 1, "the daemon of host h2");
}

TEST_F(Hosts, AnAgentThatFailsIsNamedWithItsCommand) {
  const auto job = start({"--host", "h1:1,h9:1", "sleep", "300"});
  expect_end(*job, 1, "cannot start a daemon on host h9: \"" + hosts->agent() + " h9 ");
}

/// The line on the daemon's stdin begins with the version of what follows.
TEST_F(Hosts, ADaemonThatIsToldByAnotherVersionRefuses) {
  const auto job =
      start_by("head -n 1 | sed s/^opald-[0-9]*/opald-0/ | $agent \"$@\"", {"--host", "h2:2", "sleep", "300"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("what came on stdin is not from an opalrun of this version: version_mismatch"));
  EXPECT_THAT(outcome.err, HasSubstr("opalrun: cannot start a daemon on host h2: "));
  EXPECT_THAT(lines_of(outcome.err), SizeIs(2)) << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

TEST_F(Hosts, AHostWhoseSessionDirectoryHasNoRoomEndsTheJob) {
  const auto job = start_by(
      "host=$1; shift; $agent $host mount -t tmpfs -o size=4k,nr_inodes=2 tmpfs $TMPDIR && exec $agent $host \"$@\"",
      {"--host", "h2:2", "sleep", "300"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
  EXPECT_THAT(outcome.err, HasSubstr("opalrun: cannot start a daemon on host h2: "));
  EXPECT_THAT(lines_of(outcome.err), SizeIs(2)) << outcome.err;
  EXPECT_EQ(job->leftovers(), "");
}

TEST_F(Hosts, ADaemonWithAWrongSecretIsNotListenedTo) {
  const std::string secret(64, 'a');
  const std::string file = directory() + "/secret";
  std::ofstream{file} << secret << '\n';
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  std::string hex;
  for (int i = 0; i < 64; ++i) hex += "61";
  std::string other = hex;
  other[1] = '2';
  const auto job =
      start_by(fmt::format("head -n 1 | sed s/{}/{}/ | $agent \"$@\"", hex, other),
               {"--start-timeout", "3", "--set", "am_secret_file=" + file, "--host", "h2:2", "sleep", "300"});
  expect_end(*job, 1, "host h2");
}

/// The launcher would have no descriptor for a file of a rank that prints later than others.
TEST_F(Hosts, ALauncherWithoutFileDescriptorsForTheFilesOfOtherHostsRanksStartsNothing) {
  std::vector<std::string> prefix = hosts->on_network_of(1);
  prefix.insert(prefix.end(), {"sh", "-c", "ulimit -n 160; exec \"$@\"", "sh"});
  LaunchedJob job{{"--launch-agent", hosts->agent(), "--output-filename", directory() + "/out", "--host", "h2:64", "sh",
                   "-c", "echo up"},
                  {},
                  prefix};
  expect_end(job, 1, "the limit (ulimit -n) is 160");
}

TEST_F(Hosts, AHostWithoutFileDescriptorsEndsTheJob) {
  const auto job = start_by("host=$1; shift; exec $agent $host sh -c 'ulimit -n 48; exec \"$@\"' sh \"$@\"",
                            {"--daemon-timeout", "5", "--host", "h2:32", "sleep", "300"});
  expect_end(*job, 1, "the limit (ulimit -n) is 48");
}

TEST_F(Hosts, AProgramThatIsMissingOnOneHostIsSaidOnce) {
  const std::string program = directory() + "/only-here";
  std::ofstream{program} << "#!/bin/sh\nexit 0\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  // On h1 the directory is hidden, as on a host without the shared file system.
  ASSERT_EQ(std::system(fmt::format("{} h1 mount -t tmpfs tmpfs {}", hosts->agent(), directory()).c_str()), 0);
  const auto job = start({"--host", "h1:2", program});
  expect_end(*job, 127, "no such file or directory (on host h1)");
}

}  // namespace
}  // namespace runtime::test
