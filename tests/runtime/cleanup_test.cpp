// SPDX-License-Identifier: Apache-2.0
// SIGKILL of a rank, of opalrun or of its process guard, at any moment, leaves no process, no file and no shared
// memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "opal/core/environment.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using ::testing::HasSubstr;

// Each rank has a child, a grandchild in a session of its own with an empty environment, and waits.
const std::vector<std::string> kFamily{
    "-n", "2", "--grace", "0.2", "sh", "-c", "sleep 300 & setsid sh -c 'sleep 300 & sleep 300' & echo up; sleep 300"};

TEST(Cleanup, KilledRankLeavesNothing) {
  LaunchedJob job{{"-n", "2", "--grace", "0.2", "sh", "-c", "sleep 300 & echo $$; sleep 300"}};
  ASSERT_TRUE(job.wait_for_output("\n"));
  for (const pid_t pid : job.processes()) {
    if (pid == job.pid() || pid == job.guard()) continue;
    ::kill(pid, SIGKILL);
    break;
  }
  const Outcome outcome = job.wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Cleanup, KilledLauncherLeavesNothing) {
  LaunchedJob job{kFamily};
  ASSERT_TRUE(job.wait_for_output("up\nup\n"));
  ::kill(job.pid(), SIGKILL);
  EXPECT_EQ(job.wait().status, 128 + SIGKILL);
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Cleanup, KilledGuardEndsTheJobWithAMessageAndLeavesNothing) {
  LaunchedJob job{kFamily};
  ASSERT_TRUE(job.wait_for_output("up\nup\n"));
  const pid_t guard = job.guard();
  ASSERT_NE(guard, 0);
  ::kill(guard, SIGKILL);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_THAT(outcome.err, HasSubstr("the process that looks after the ranks (opal-guard, pid "));
  EXPECT_EQ(job.leftovers(), "");
}

pid_t pid_of_rank(const LaunchedJob& job, unsigned rank) {
  for (const pid_t pid : job.processes()) {
    std::ifstream file{fmt::format("/proc/{}/environ", pid)};
    for (std::string variable; std::getline(file, variable, '\0');) {
      if (variable == fmt::format("PMIX_RANK={}", rank)) return pid;
    }
  }
  return 0;
}

TEST(Cleanup, AStoppedGuardIsContinuedWhenARankHasDied) {
  LaunchedJob job{{"-n", "2", helper("mpi_rank"), "run"}};
  ASSERT_TRUE(job.wait_for_output("up\n"));
  ::kill(job.guard(), SIGSTOP);
  const pid_t rank = pid_of_rank(job, 1);
  ASSERT_NE(rank, 0);
  ::kill(rank, SIGKILL);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 "));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Cleanup, AStoppedGuardIsContinuedWhenTheJobIsToEnd) {
  LaunchedJob job{kFamily};
  ASSERT_TRUE(job.wait_for_output("up\nup\n"));
  ::kill(job.guard(), SIGSTOP);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait().status, 128 + SIGTERM);
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Cleanup, ARankThatClosesTheLaunchersConnectionIsKilledWithAMessage) {
  LaunchedJob job{{"-n", "2", helper("mpi_rank"), "close"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(outcome.err, HasSubstr("runs on without its connection to the launcher"));
  EXPECT_EQ(job.leftovers(), "");
}

/// As on a network file system whose server does not answer.
TEST(Cleanup, AProgramWhoseExecutionDoesNotReturnCanBeEnded) {
  const opal::Fd guard{::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC)};
  if (!guard) GTEST_SKIP() << "needs CAP_SYS_ADMIN: fanotify_init: " << std::strerror(errno);
  const std::filesystem::path program =
      std::filesystem::path{::testing::TempDir()} / fmt::format("hangs{}", ::getpid());
  std::filesystem::copy_file("/bin/true", program);
  ASSERT_EQ(::fanotify_mark(guard.get(), FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD, program.c_str()), 0);
  LaunchedJob job{{"-n", "3", "--grace", "0.1", program.string()}};
  pollfd executed{guard.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&executed, 1, 20000), 1);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait().status, 128 + SIGTERM);
  EXPECT_EQ(job.leftovers(), "");
  std::filesystem::remove(program);
}

enum class Victim { launcher, guard, rank };

class CleanupAtAnyStep : public ::testing::TestWithParam<Victim> {};

/// At each step of the start: when so many processes of the job run.
TEST_P(CleanupAtAnyStep, NothingIsLeft) {
  constexpr int kProcesses = 14;  // launcher, process guard, four ranks of three processes
  for (int round = 1; round <= kProcesses; ++round) {
    LaunchedJob job{{"-n", "4", "--grace", "0.1", "sh", "-c", "sleep 300 & sleep 300; true"}};
    ASSERT_TRUE(job.wait_for_processes(round)) << "round " << round;
    if (GetParam() == Victim::launcher) {
      ::kill(job.pid(), SIGKILL);
    } else if (GetParam() == Victim::guard) {
      const pid_t guard = job.guard();
      ASSERT_NE(guard, 0);
      ::kill(guard, SIGKILL);
    } else {
      std::vector<pid_t> ranks;
      ASSERT_TRUE(eventually([&] {
        ranks.clear();
        for (const pid_t pid : job.processes()) {
          if (pid != job.pid() && pid != job.guard() && ::getpgid(pid) == pid) ranks.push_back(pid);
        }
        return !ranks.empty();
      }));
      ::kill(ranks[static_cast<std::size_t>(round) % ranks.size()], SIGKILL);
    }
    const Outcome outcome = job.wait();
    EXPECT_NE(outcome.status, 0) << "round " << round;
    ASSERT_EQ(job.leftovers(), "") << "round " << round;
  }
}

std::string name_of_victim(const ::testing::TestParamInfo<Victim>& info) {
  constexpr std::array kNames{"Launcher", "Guard", "Rank"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(EveryVictim, CleanupAtAnyStep,
                         ::testing::Values(Victim::launcher, Victim::guard, Victim::rank), name_of_victim);

TEST(Cleanup, DirectoryOfADeadLauncherIsSweptByTheNextOne) {
  LaunchedJob first{{"-n", "1", "sleep", "300"}};  // gives the directory; ended below
  const auto session_of = [&](pid_t pid) {
    return first.directory() / fmt::format("opal-job-{}-{}@{}-0badcafe", ::geteuid(), opal::host_name(), pid);
  };
  const auto stale = session_of(32767999);
  std::filesystem::create_directories(stale / "deep");
  std::ofstream{stale / "deep" / "file"} << "left over";
  // Another process has the pid of the dead launcher.
  const auto reused = session_of(::getpid());
  std::filesystem::create_directories(reused);
  const auto foreign = first.directory() / "opal-job-without-owner";
  std::filesystem::create_directories(foreign);
  const std::string command = fmt::format("TMPDIR={} {} -n 1 true", first.directory().string(), OPALRUN_PATH);
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_FALSE(std::filesystem::exists(reused));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  std::filesystem::remove_all(foreign);
  ::kill(first.pid(), SIGTERM);
  EXPECT_EQ(first.wait().status, 128 + SIGTERM);
  EXPECT_EQ(first.leftovers(), "");
}

}  // namespace
}  // namespace runtime::test
