// SPDX-License-Identifier: Apache-2.0
// runtime::Client under opalrun's PMIx server, and as a singleton.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "runtime/client/client.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Outcome run_ranks(const std::string& ranks, const std::string& scenario) {
  return run_job({"-n", ranks, "--grace", "0.5", helper("client_rank"), scenario});
}

TEST(Client, RanksExchangeDataLazily) {
  const Outcome job = run_ranks("4", "exchange");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(lines_of(job.out), SizeIs(4));
  EXPECT_THAT(lines_of(job.out), Each(HasSubstr("same")));
  EXPECT_THAT(job.out, HasSubstr("rank 3 of 4, 4 of them local: same"));
}

TEST(Client, RanksExchangeDataInACollectingFence) {
  const Outcome job = run_ranks("3", "collect");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(lines_of(job.out), SizeIs(3));
}

TEST(Client, ThirtyTwoRanksExchangeData) {
  const Outcome job = run_ranks("32", "exchange");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(lines_of(job.out), SizeIs(32));
}

TEST(Client, GetWaitsForARankThatHasNotPublishedYet) {
  const Outcome job = run_ranks("2", "without_fence");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_EQ(job.out, "same\nsame\n");
}

TEST(Client, AnUnknownVariableIsReportedOnceForAllRanks) {
  ::setenv("OPAL_AM_SPINN", "3", 1);
  const Outcome job = run_ranks("3", "secret");
  ::unsetenv("OPAL_AM_SPINN");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  const std::vector<std::string> lines = lines_of(job.err);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.find("unknown variable") != std::string::npos; }),
            1)
      << job.err;
}

/// In both of libpmix's stores: messages for small jobs, shared memory for large ones.
TEST(Client, GetWaitsForKeysThatAreAddedOneAfterAnother) {
  for (const char* const ranks : {"3", "20"}) {
    const Outcome job = run_ranks(ranks, "keys");
    EXPECT_EQ(job.status, 0) << ranks << " ranks: " << job.out << job.err;
  }
}

TEST(Client, NamesArePublishedLookedUpAndWithdrawn) {
  const Outcome job = run_ranks("2", "names");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(job.out, HasSubstr("lookup: same"));
}

TEST(Client, ANameIsNotPublishedTwice) {
  const Outcome job = run_ranks("2", "name_twice");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
}

TEST(Client, AbortEndsTheJobWithItsStatusAndIsReportedOnce) {
  const Outcome job = run_ranks("3", "abort");
  EXPECT_EQ(job.status, 9);
  const auto lines = lines_of(job.err);
  ASSERT_THAT(lines, SizeIs(1)) << job.err;
  EXPECT_THAT(lines[0], HasSubstr("aborted the job with status 9: no convergence"));
  EXPECT_THAT(lines[0], HasSubstr("rank 1 (pid "));
}

TEST(Client, FenceWithADeadRankFailsAndTheJobEnds) {
  const Outcome job = run_ranks("3", "die_in_fence");
  EXPECT_EQ(job.status, 128 + SIGKILL);
  EXPECT_EQ(job.out, "fence failed\nfence failed\n");
  EXPECT_THAT(lines_of(job.err), SizeIs(1)) << job.err;
}

/// What rank 1 does instead of joining, in a shell, before the others join or when they have.
struct Absence {
  std::string ranks;
  std::vector<std::string> left;
  bool continuous;
  std::string end;
};

Outcome run_without(const Absence& absence, bool early) {
  const std::string directory = ::testing::TempDir() + "/opal-absence-" + std::to_string(::getpid());
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  std::string joined;  // all the others
  for (const std::string& rank : absence.left) joined += " [ -e " + directory + "/up-" + rank + " ] &&";
  const std::string wait = "do sleep 0.01; done; ";
  const std::string script = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then " +
                             (early ? "touch " + directory + "/gone; " : "until" + joined + " true; " + wait) +
                             absence.end + "; fi; " + (early ? "until [ -e " + directory + "/gone ]; " + wait : "") +
                             "exec \"$@\"";
  std::vector<std::string> command{"-n", absence.ranks, "--timeout", "30", "--grace", "0.5"};
  if (absence.continuous) command.emplace_back("--continuous");
  command.insert(command.end(), {"sh", "-c", script, "sh", helper("client_rank"), "without", directory});
  command.insert(command.end(), absence.left.begin(), absence.left.end());
  const Outcome outcome = run_job(command);
  std::filesystem::remove_all(directory);
  return outcome;
}

TEST(Client, AFenceWithARankThatDiedBeforeItJoinedFailsAndTheJobGoesOn) {
  for (const bool early : {true, false}) {
    const Outcome job = run_without({"3", {"0", "2"}, true, "kill -9 $$"}, early);
    EXPECT_EQ(job.status, 128 + SIGKILL) << job.out << job.err;
    EXPECT_EQ(lines_of(job.out).size(), 2U) << job.out << job.err;
    EXPECT_THAT(job.out, HasSubstr("rank 0 went on"));
    EXPECT_THAT(lines_of(job.err), SizeIs(1)) << job.err;
  }
}

TEST(Client, RanksThatEndWithoutJoiningAreNotAwaited) {
  for (const bool early : {true, false}) {
    const Outcome job = run_without({"3", {"0", "2"}, false, "exit 0"}, early);
    EXPECT_EQ(job.status, 0) << job.err;
    EXPECT_EQ(lines_of(job.out).size(), 2U) << job.out << job.err;
    EXPECT_EQ(job.err, "opalrun: rank 1 ended and has not joined the job, which other ranks have\n");
  }
}

TEST(Client, EventHandlersAreToldOfARankThatDied) {
  const Outcome job = run_ranks("2", "death_event");
  EXPECT_EQ(job.status, 128 + SIGKILL);
  EXPECT_EQ(job.out, "told\n");
}

TEST(Client, RankThatEndsWithoutFinalizeIsAFailure) {
  const Outcome job = run_ranks("2", "leave");
  EXPECT_NE(job.status, 0);
  EXPECT_THAT(job.err, HasSubstr("exited with status 0 without leaving the job"));
}

TEST(Client, TwoHundredFencesFollowEachOther) {
  const Outcome job = run_ranks("2", "fences");
  EXPECT_EQ(job.status, 0) << job.out << job.err;
}

/// At each step of its start: when so many processes of it run, and when all its ranks have met.
TEST(Client, KilledAtAnyStepTheJobLeavesNothing) {
  constexpr int kProcesses = 5;  // launcher, process guard, ranks
  for (int round = 0; round < 3 * (kProcesses + 1); ++round) {
    LaunchedJob job{{"-n", "3", "--grace", "0.2", helper("client_rank"), "forever"}};
    const int step = round / 3;
    ASSERT_TRUE(step == kProcesses ? job.wait_for_output("up") : job.wait_for_processes(step + 1)) << "step " << step;
    const pid_t guard = round % 3 == 1 ? job.guard() : 0;
    if (round % 3 == 0) ::kill(job.pid(), SIGKILL);
    if (round % 3 == 1) ::kill(guard, SIGKILL);
    if (round % 3 == 2) ::kill(job.pid(), SIGTERM);
    EXPECT_NE(job.wait().status, 0);
    ASSERT_EQ(job.leftovers(), "") << "step " << step;
  }
}

TEST(Client, IsASingletonWithoutALauncher) {
  auto client = Client::open();
  ASSERT_TRUE(client);
  EXPECT_TRUE((*client)->singleton());
  EXPECT_EQ((*client)->rank(), 0U);
  EXPECT_EQ((*client)->size(), 1U);
  EXPECT_EQ((*client)->local_peers(), std::vector<unsigned>{0});
  const Client::Bytes value(10, std::byte{3});
  ASSERT_TRUE((*client)->put("key", value));
  EXPECT_FALSE((*client)->get(0, "key")) << "not committed yet";
  ASSERT_TRUE((*client)->commit());
  ASSERT_TRUE((*client)->fence());
  const auto got = (*client)->get(0, "key");
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, value);
  EXPECT_FALSE((*client)->get(1, "key"));
  EXPECT_TRUE((*client)->finalize());
}

TEST(Client, ForeignKeysThatAreTooLongAreRefused) {
  auto client = Client::open();
  ASSERT_TRUE(client);
  EXPECT_FALSE((*client)->put(std::string(1000, 'k'), {}));
  EXPECT_FALSE((*client)->put("", {}));
}

}  // namespace
}  // namespace runtime::test
