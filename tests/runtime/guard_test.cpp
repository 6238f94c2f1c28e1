// SPDX-License-Identifier: Apache-2.0
// The process guard's protocol, and a process guard at work without the rest of the launcher.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/guard/handle.hpp"
#include "runtime/packing.hpp"

namespace runtime::guard {
namespace {

const SpawnPlan kPlan{.path = "/bin/true",
                      .arguments = {"true", "", "two words"},
                      .environment = {"A=1", "B="},
                      .working_directory = "/tmp",
                      .cpus = {0, 3},
                      .open_files = 100};

ByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span{text}); }

TEST(SpawnPlan, SurvivesItsWayThroughAFile) {
  const auto decoded = unpack<SpawnPlan>(bytes_of(pack(kPlan)));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, kPlan);
}

TEST(SpawnPlan, IsRefusedWhenCutOffOrExtendedAnywhere) {
  const std::string good = pack(kPlan);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(unpack<SpawnPlan>(bytes_of(good).first(size))) << size;
  }
  EXPECT_FALSE(unpack<SpawnPlan>(bytes_of(good + "x")));
  std::string huge = good;
  huge.replace(0, 8, 8, '\xff');
  EXPECT_FALSE(unpack<SpawnPlan>(bytes_of(huge))) << "a length larger than the rest";
}

/// Waits for the next report.
std::optional<Report> next(Handle& guard) {
  while (true) {
    auto report = guard.next();
    if (!report) return {};
    if (report->has_value()) return **report;
    pollfd ready{guard.fd(), POLLIN, 0};
    if (::poll(&ready, 1, 20'000) <= 0) return {};
  }
}

struct Null {
  Fd fd{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  [[nodiscard]] Stdio stdio() const { return {fd.get(), fd.get(), fd.get()}; }
};

SpawnPlan shell(const std::string& script) {
  SpawnPlan plan;
  plan.path = "/bin/sh";
  plan.arguments = {"sh", "-c", script};
  return plan;
}

TEST(Guard, ReportsStartAndEndOfARank) {
  auto guard = Handle::start("", {});
  ASSERT_TRUE(guard);
  const Null null;
  ASSERT_TRUE(guard->spawn(5, shell("exit 3"), null.stdio()));
  const auto started = next(*guard);
  ASSERT_TRUE(started);
  EXPECT_EQ(started->kind, Report::Kind::started);
  EXPECT_EQ(started->rank, 5);
  const auto exited = next(*guard);
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->kind, Report::Kind::exited);
  EXPECT_EQ(exited->pid, started->pid);
  EXPECT_EQ(WEXITSTATUS(exited->status), 3);
  guard->quit();
}

TEST(Guard, SaysWhichStepOfAStartFailed) {
  auto guard = Handle::start("", {});
  ASSERT_TRUE(guard);
  const Null null;
  SpawnPlan no_program = shell("");
  no_program.path = "/no/such/program";
  ASSERT_TRUE(guard->spawn(0, no_program, null.stdio()));
  auto report = next(*guard);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->kind, Report::Kind::refused);
  EXPECT_EQ(report->step, Step::exec);
  EXPECT_EQ(report->status, ENOENT);

  SpawnPlan no_directory = shell("");
  no_directory.working_directory = "/no/such/directory";
  ASSERT_TRUE(guard->spawn(1, no_directory, null.stdio()));
  report = next(*guard);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->step, Step::chdir);

  SpawnPlan no_cpu = shell("");
  no_cpu.cpus = {4000};
  ASSERT_TRUE(guard->spawn(2, no_cpu, null.stdio()));
  report = next(*guard);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->step, Step::bind);
  guard->quit();
}

TEST(Guard, KillsWhatARankLeftBehindAndSaysWhenNothingIsLeft) {
  auto guard = Handle::start("", {});
  ASSERT_TRUE(guard);
  const Null null;
  ASSERT_TRUE(guard->spawn(0, shell("setsid sh -c 'sleep 300 & sleep 300' & sleep 300"), null.stdio()));
  ASSERT_TRUE(next(*guard));
  ASSERT_TRUE(guard->kill_all());
  const auto exited = next(*guard);
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->kind, Report::Kind::exited);
  EXPECT_EQ(WTERMSIG(exited->status), SIGKILL);
  const auto empty = next(*guard);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->kind, Report::Kind::empty);
  guard->quit();
}

TEST(Guard, ItsDeathIsSeenAndTakesTheRankAlong) {
  auto guard = Handle::start("", {});
  ASSERT_TRUE(guard);
  const Null null;
  ASSERT_TRUE(guard->spawn(0, shell("sleep 300"), null.stdio()));
  const auto started = next(*guard);
  ASSERT_TRUE(started);
  const Fd rank{static_cast<int>(::syscall(SYS_pidfd_open, started->pid, 0))};
  ::kill(guard->pid(), SIGKILL);
  EXPECT_FALSE(next(*guard));
  ::waitpid(guard->pid(), nullptr, 0);
  pollfd gone{rank.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&gone, 1, 20'000), 1) << "the rank outlived its process guard";
}

}  // namespace
}  // namespace runtime::guard
