// SPDX-License-Identifier: Apache-2.0
// tests/runtime/host_jobs.hpp — jobs on hosts made of namespaces: started there, looked at, and held to leave nothing.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/fake_hosts.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {

/// A test with hosts h1 ... hN; skipped where they cannot be made.
class HostJobs : public ::testing::Test {
 protected:
  explicit HostJobs(unsigned count) : count_(count) {}
  void SetUp() override;
  void TearDown() override;
  static std::string directory();
  [[nodiscard]] std::unique_ptr<LaunchedJob> start(const std::vector<std::string>& arguments,
                                                   const std::string& input = {}) const;
  /// The same with an agent that runs `script` first, where $agent is ours.
  [[nodiscard]] std::unique_ptr<LaunchedJob> start_by(const std::string& script,
                                                      const std::vector<std::string>& arguments) const;
  /// A job whose ranks sleep, all of them running.
  [[nodiscard]] std::unique_ptr<LaunchedJob> start_sleepers(std::vector<std::string> arguments, unsigned ranks) const;
  /// Waits for the end, which must have this status and these words in its only line, and leave nothing.
  static void expect_end(LaunchedJob& job, int status, const std::string& words);
  static void expect_words(LaunchedJob& job, int status, const std::string& words);
  /// Sends the job's daemon on host `number` a signal; a daemon of any host for 0.
  void kill_daemon(const LaunchedJob& job, unsigned number, int signal) const;

  std::unique_ptr<opal::test::FakeHosts> hosts;

 private:
  const unsigned count_;
};

}  // namespace runtime::test
