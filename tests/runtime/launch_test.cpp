// SPDX-License-Identifier: Apache-2.0
// opalrun as a user sees it: exit statuses, messages, limits, environment, binding.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "opal/topology/topology.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(Launch, RunsOneProcessPerRankAndTellsItWhoItIs) {
  const Outcome job = run_job({"-n", "3", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"});
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_THAT(lines_of(job.out), UnorderedElementsAre("0 of 3", "1 of 3", "2 of 3"));
  EXPECT_EQ(job.err, "");
}

TEST(Launch, ThirtyTwoRanksStartAndEnd) {
  const Outcome job = run_job({"-n", "32", "sh", "-c", "echo here"});
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(lines_of(job.out).size(), 32U);
}

TEST(Launch, ExitStatusIsThatOfTheRankThatFailedFirst) {
  const Outcome job =
      run_job({"-n", "3", "--grace", "0.2", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 7; exec sleep 60"});
  EXPECT_EQ(job.status, 7);
  const auto lines = lines_of(job.err);
  ASSERT_EQ(lines.size(), 1U) << job.err;
  EXPECT_THAT(lines[0], HasSubstr("rank 1 (pid "));
  EXPECT_THAT(lines[0], HasSubstr("exited with status 7; ending the other 2 ranks"));
}

TEST(Launch, ARankWithAStatusOfItsOwnLeavesTheOthersTimeToEndAndToPrint) {
  const Outcome job = run_job({"-n", "2", "--grace", "60", "sh", "-c",
                               "[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 7; sleep 0.5; echo the result; exit 3"});
  EXPECT_EQ(job.status, 7);
  EXPECT_EQ(job.out, "the result\n");
  EXPECT_THAT(job.err, HasSubstr("exited with status 7\n"));
}

TEST(Launch, RankKilledByASignalIsReportedOnceAndEndsTheJob) {
  const Outcome job = run_job({"-n", "2", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] && kill -9 $$; exec sleep 60"});
  EXPECT_EQ(job.status, 128 + SIGKILL);
  const auto lines = lines_of(job.err);
  ASSERT_EQ(lines.size(), 1U) << job.err;
  EXPECT_THAT(lines[0], HasSubstr("rank 0 (pid "));
  EXPECT_THAT(lines[0], HasSubstr("was killed by signal 9 (SIGKILL); ending the other rank"));
}

TEST(Launch, ACallerThatIgnoresSigchldDoesNotHideTheEndsOfRanks) {
  LaunchedJob job{
      {"-n", "2", "sh", "-c", "exit $OMPI_COMM_WORLD_RANK"}, {}, {"sh", "-c", "trap '' CHLD; exec \"$@\"", "sh"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("exited with status 1"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Launch, RankThatIgnoresSigtermIsKilledAfterTheGracePeriod) {
  const Outcome job = run_job({"-n", "2", "--grace", "0.2", "sh", "-c",
                               "[ $OMPI_COMM_WORLD_RANK = 0 ] && sleep 0.3 && exit 3; trap '' TERM; "
                               "while true; do sleep 1; done"});
  EXPECT_EQ(job.status, 3);
}

TEST(Launch, TimeoutEndsTheJobWithStatus124AndSaysSo) {
  const Outcome job = run_job({"-n", "2", "--timeout", "0.3", "sleep", "60"});
  EXPECT_EQ(job.status, 124);
  EXPECT_THAT(job.err, HasSubstr("did not end within --timeout 0.3 s; ending 2 ranks"));
}

/// More ranks than descriptors: libpmix would wait for ever for those that cannot connect.
TEST(Launch, TooFewDescriptorsForTheRanksAreSaidAtTheStart) {
  LaunchedJob job{{"-n", "16", "sleep", "300"}, {}, {"prlimit", "--nofile=64:64"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the limit (ulimit -n) is 64"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Launch, AStackThatIsTooSmallIsSaidAtTheStart) {
  LaunchedJob job{{"-n", "2", "true"}, {}, {"prlimit", "--stack=65536:65536"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the limit of stacks (ulimit -s) is 65536 bytes"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Launch, AMistakeInTheEnvironmentIsSaidOnceBeforeAnythingStarts) {
  ::setenv("OPAL_BTL_SM_FBOX_SIZE", "much", 1);
  const Outcome job = run_job({"-n", "2", "echo", "started"});
  ::unsetenv("OPAL_BTL_SM_FBOX_SIZE");
  EXPECT_EQ(job.status, 2);
  EXPECT_EQ(job.out, "");
  EXPECT_THAT(lines_of(job.err), ElementsAre(HasSubstr("much")));
}

/// A job in namespaces of its own; skipped where they cannot be made.
std::string error_within(const std::vector<std::string>& prefix) {
  LaunchedJob job{{"-n", "2", "true"}, {}, prefix};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(job.leftovers(), "");
  return outcome.err;
}

TEST(Launch, SurroundingsInWhichItCannotWorkAreSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: to make namespaces";
  EXPECT_THAT(error_within({"unshare", "-p", "--fork"}), HasSubstr("/proc is not that of this pid namespace"));
  EXPECT_THAT(error_within({"unshare", "-n"}), HasSubstr("loopback"));
}

/// libpmix has 50 bytes for the letters of a name.
TEST(Launch, AHostNameOf64LettersIsNoMatter) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: to make namespaces";
  const std::string name_first = fmt::format("hostname {} && exec \"$@\"", std::string(64, 'a'));
  LaunchedJob job{{"-n", "2", "true"}, {}, {"unshare", "-u", "sh", "-c", name_first, "sh"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST(Launch, UnknownProgramIsStatus127AndADirectoryIs126) {
  const Outcome unknown = run_job({"-n", "2", "no-such-program-anywhere"});
  EXPECT_EQ(unknown.status, 127);
  EXPECT_EQ(unknown.err, "opalrun: no-such-program-anywhere: command not found\n");
  const Outcome missing = run_job({"/no/such/file"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.err, HasSubstr("no such file or directory"));
  const Outcome directory = run_job({"/tmp"});
  EXPECT_EQ(directory.status, 126);
  EXPECT_THAT(directory.err, HasSubstr("is a directory"));
}

TEST(Launch, FileThatIsNoProgramIsStatus126AndAScriptWithoutInterpreterRuns) {
  const std::string file = ::testing::TempDir() + "/opal-not-a-program";
  std::ofstream{file} << "echo run by the shell\n";
  EXPECT_EQ(run_job({file}).status, 126) << "not executable";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  EXPECT_EQ(run_job({"-n", "1", file}).out, "run by the shell\n");
  std::ofstream{file} << "#!/no/such/interpreter\n";
  const Outcome job = run_job({"-n", "2", file});
  EXPECT_EQ(job.status, 127);
  EXPECT_THAT(job.err, HasSubstr("cannot start rank 0: " + file));
  std::filesystem::remove(file);
}

TEST(Launch, WrongCommandLinesAreStatus2AndNameTheNearestOption) {
  const Outcome typo = run_job({"--tag-outptu", "true"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_THAT(typo.err, HasSubstr("unknown option --tag-outptu; did you mean --tag-output?"));
  EXPECT_EQ(run_job({"-n", "zero", "true"}).status, 2);
  EXPECT_EQ(run_job({"-n", "2"}).status, 2);
}

TEST(Launch, OptionsBehindTheProgramBelongToTheProgram) {
  const Outcome job = run_job({"-np", "1", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--mca",
                               "btl", "self", "echo", "-n", "5", "--timeout", "--", "-np"});
  EXPECT_EQ(job.status, 0);
  EXPECT_EQ(job.out, "5 --timeout -- -np");
  EXPECT_THAT(job.err, HasSubstr("--mca btl self is ignored"));
}

TEST(Launch, SlotsOfHostsCountAndAHostThatCannotBeReachedIsNamed) {
  EXPECT_EQ(lines_of(run_job({"--host", "localhost:3", "echo", "x"}).out).size(), 3U);
  const Outcome other = run_job({"--launch-agent", "false", "--host", "elsewhere.example:2", "true"});
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("cannot start a daemon on host elsewhere.example: \"false elsewhere.example "));
  const Outcome full = run_job({"--host", "localhost:2", "-n", "3", "true"});
  EXPECT_THAT(full.err, HasSubstr("--oversubscribe"));
  EXPECT_EQ(run_job({"--host", "localhost:2", "-n", "3", "--oversubscribe", "true"}).status, 0);
}

TEST(Launch, EnvironmentSettingsAndDirectoryReachTheRanks) {
  const Outcome job = run_job({"-n", "1", "-x", "COLOUR=blue", "--wdir", "/usr", "--set", "am_spin=8us", "sh", "-c",
                               "echo $COLOUR; pwd; printf '%s' \"$OPAL_SET\" | head -n 1"});
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_THAT(lines_of(job.out), ElementsAre("blue", "/usr", "am_spin=8us"));
}

constexpr char kShowSecret[] =
    "file=$(printf '%s\n' \"$OPAL_SET\" | sed -n 's/^am_secret_file=//p' | tail -n 1); stat -c %a $file $(dirname "
    "$file); cat "
    "$file";

TEST(Launch, RanksGetTheJobsSecretInAFileThatNobodyElseMayRead) {
  const auto first = lines_of(run_job({"-n", "2", "sh", "-c", kShowSecret}).out);
  const auto second = lines_of(run_job({"-n", "1", "sh", "-c", kShowSecret}).out);
  ASSERT_THAT(first, SizeIs(6));
  EXPECT_THAT(first, UnorderedElementsAre("600", "600", "700", "700", SizeIs(64), SizeIs(64)));
  ASSERT_THAT(second, ElementsAre("600", "700", SizeIs(64)));
  EXPECT_THAT(first, Contains(second[2]).Times(0)) << "another job has another secret";
  // Nothing that ps or a dump of the environment shows tells it.
  const std::string hunt = fmt::format(
      "cd $TMPDIR; ({}) | tail -n 1 > secret; cat /proc/[0-9]*/cmdline /proc/self/environ > shown; "
      "grep -qaF -f secret shown || echo not there; rm secret shown",
      kShowSecret);
  const Outcome job = run_job({"-n", "1", "sh", "-c", hunt});
  EXPECT_EQ(job.out, "not there\n") << job.err;
}

TEST(Launch, ASecretOfTheUsersIsTakenWhenNobodyElseMayReadIt) {
  const std::string file = testing::TempDir() + "opal-launch-secret";
  std::ofstream{file} << "a secret of two jobs";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  const Outcome job = run_job({"-n", "1", "--set", "am_secret_file=" + file, "sh", "-c", kShowSecret});
  EXPECT_THAT(lines_of(job.out), ElementsAre("600", "700", "a secret of two jobs")) << job.err;
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  const Outcome open = run_job({"-n", "1", "--set", "am_secret_file=" + file, "true"});
  EXPECT_EQ(open.status, 1);
  EXPECT_THAT(open.err, HasSubstr("chmod 600"));
}

TEST(Launch, AJobHasASecretAlsoWhereTheUserWantsNone) {
  const Outcome job = run_job({"-n", "1", "--set", "am_secret_file=none", "sh", "-c", kShowSecret});
  EXPECT_THAT(lines_of(job.out), ElementsAre("600", "700", SizeIs(64))) << job.err;
}

TEST(Launch, UnknownVariablesAndBadValuesAreRefusedBeforeAnythingStarts) {
  const Outcome typo = run_job({"--set", "am_spinn=3", "echo", "started"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_EQ(typo.out, "");
  EXPECT_THAT(typo.err, HasSubstr("am_spinn"));
  EXPECT_THAT(typo.err, HasSubstr("did you mean am_spin?"));
  const Outcome value = run_job({"--set", "am_spin=fast", "echo", "started"});
  EXPECT_EQ(value.status, 2);
  EXPECT_THAT(value.err, HasSubstr("am_spin"));
  EXPECT_EQ(run_job({"--set", "mpi_anything=1", "true"}).status, 0) << "the MPI library checks its own";
}

TEST(Launch, RanksAreBoundToCoresOfTheirOwnWhenThereAreEnough) {
  const auto topology = opal::topology::Topology::open();
  ASSERT_TRUE(topology);
  const std::string count = "grep Cpus_allowed: /proc/self/status";
  if (topology->cores().size() >= 2) {
    const auto lines = lines_of(run_job({"-n", "2", "sh", "-c", count}).out);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_NE(lines[0], lines[1]);
  }
  const std::string many = fmt::format("{}", topology->cores().size() + 1);
  const auto free = lines_of(run_job({"-n", many, "sh", "-c", count}).out);
  ASSERT_EQ(free.size(), topology->cores().size() + 1);
  EXPECT_EQ(free.front(), free.back());
  EXPECT_THAT(run_job({"-n", "1", "--bind", "core", "--report-bindings", "true"}).err, HasSubstr("rank 0 is bound to"));
}

TEST(Launch, SigintEndsTheJobAndUserSignalsAreForwarded) {
  LaunchedJob job{{"-n", "2", "sh", "-c",
                   "trap 'echo usr1' USR1; trap 'echo int; exit 0' INT; echo ready; while true; do sleep 0.05; done"}};
  ASSERT_TRUE(job.wait_for_output("ready\nready\n"));
  ::kill(job.pid(), SIGUSR1);
  ASSERT_TRUE(job.wait_for_output("usr1\nusr1\n"));
  ::kill(job.pid(), SIGINT);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGINT);
  EXPECT_THAT(outcome.out, HasSubstr("int\nint\n"));
  EXPECT_THAT(outcome.err, HasSubstr("received SIGINT: ending 2 ranks"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Launch, ProcessesThatARankLeavesBehindEndWithTheJob) {
  const Outcome job = run_job({"-n", "2", "sh", "-c", "setsid sleep 300 & sleep 300 & echo done"});
  EXPECT_EQ(job.status, 0);
  EXPECT_EQ(job.out, "done\ndone\n");
}

}  // namespace
}  // namespace runtime::test
