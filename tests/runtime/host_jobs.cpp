// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/host_jobs.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

namespace runtime::test {

using opal::test::FakeHosts;
using ::testing::HasSubstr;
using ::testing::SizeIs;

void HostJobs::SetUp() {
  std::string why;
  hosts = FakeHosts::make(count_, directory(), why);
  if (!hosts) GTEST_SKIP() << why;
}

void HostJobs::TearDown() {
  hosts.reset();
  std::filesystem::remove_all(directory());
}

std::string HostJobs::directory() {
  const std::string path = fmt::format("{}opal-hosts-{}", ::testing::TempDir(), ::getpid());
  std::filesystem::create_directories(path);
  return path;
}

std::unique_ptr<LaunchedJob> HostJobs::start(const std::vector<std::string>& arguments,
                                             const std::string& input) const {
  std::vector<std::string> all{"--launch-agent", hosts->agent(), "--grace", "0.5"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return std::make_unique<LaunchedJob>(all, input, hosts->on_network_of(1));
}

std::unique_ptr<LaunchedJob> HostJobs::start_by(const std::string& script,
                                                const std::vector<std::string>& arguments) const {
  const std::string path = directory() + "/agent-of-test";
  std::ofstream{path} << "#!/bin/sh\nagent=" << hosts->agent() << '\n' << script << '\n';
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::vector<std::string> all{"--launch-agent", path, "--grace", "0.5"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return std::make_unique<LaunchedJob>(all, std::string{}, hosts->on_network_of(1));
}

std::unique_ptr<LaunchedJob> HostJobs::start_sleepers(std::vector<std::string> arguments, unsigned ranks) const {
  arguments.insert(arguments.end(), {"sh", "-c", "echo up; sleep 300"});
  auto job = start(arguments);
  EXPECT_TRUE(eventually([&] { return lines_of(job->output()).size() == ranks; }, std::chrono::seconds{60}))
      << job->output();
  return job;
}

void HostJobs::expect_end(LaunchedJob& job, int status, const std::string& words) {
  expect_words(job, status, words);
  EXPECT_EQ(job.leftovers(), "");
}

void HostJobs::expect_words(LaunchedJob& job, int status, const std::string& words) {
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, status) << outcome.err;
  std::vector<std::string> said;
  for (const std::string& line : lines_of(outcome.err)) {
    if (line.starts_with("opalrun: ")) said.push_back(line);
  }
  ASSERT_THAT(said, SizeIs(1)) << outcome.err;
  EXPECT_THAT(said[0], HasSubstr(words));
}

void HostJobs::kill_daemon(const LaunchedJob& job, unsigned number, int signal) const {
  for (const pid_t pid : job.processes()) {
    std::string comm;
    std::ifstream{fmt::format("/proc/{}/comm", pid)} >> comm;
    if (comm == "opald" && (number == 0 || hosts->holds(number, pid))) {
      EXPECT_EQ(::kill(pid, signal), 0);
      return;
    }
  }
  ADD_FAILURE() << "no daemon";
}

}  // namespace runtime::test
