// SPDX-License-Identifier: Apache-2.0
// Daemons started by ssh itself, with the command that opalrun uses when nothing else is said: two hosts made of
// namespaces, each with an sshd.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <fstream>

#include "tests/runtime/host_jobs.hpp"

namespace runtime::test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr unsigned kHosts = 2;
constexpr char kServer[] = "/usr/sbin/sshd";

class Ssh : public HostJobs {
 protected:
  Ssh() : HostJobs(kHosts) {}

  void SetUp() override {
    HostJobs::SetUp();
    if (IsSkipped()) return;
    if (::access(kServer, X_OK) != 0 || !shell("command -v ssh ssh-keygen > /dev/null")) {
      GTEST_SKIP() << "needs ssh: the programs ssh and sshd (packages openssh-client, openssh-server)";
    }
    ASSERT_TRUE(shell("ssh-keygen -q -t ed25519 -N '' -f $d/key && cp $d/key.pub $d/allowed"));
    std::ofstream{directory() + "/sshd_config"} << "HostKey " << directory() << "/key\nAuthorizedKeysFile "
                                                << directory() << "/allowed\nUsePAM no\nStrictModes no\nPidFile none\n";
    std::ofstream config{directory() + "/config"};
    for (unsigned host = 1; host <= kHosts; ++host) {
      config << fmt::format("Host h{0}\n  HostName 10.77.0.{0}\n", host);
      // A /run of its own, where sshd wants a directory.
      ASSERT_TRUE(
          shell(fmt::format("{} h{} sh -c \"mount -t tmpfs tmpfs /run && mkdir /run/sshd && {} -f $d/sshd_config\"",
                            hosts->agent(), host, kServer)));
    }
    config << fmt::format(
        "Host *\n  IdentityFile {}/key\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        "  LogLevel ERROR\n",
        directory());
    config.close();
    // What opalrun finds as ssh reads our configuration in place of the user's.
    ASSERT_TRUE(
        shell("mkdir $d/bin && printf '#!/bin/sh\\nexec %s -F %s \"$@\"\\n' $(command -v ssh) $d/config > $d/bin/ssh"
              " && chmod +x $d/bin/ssh"));
  }

  static bool shell(const std::string& script) {
    return std::system(("d=" + directory() + "; " + script).c_str()) == 0;
  }

  /// A job that opalrun starts from h1's network.
  [[nodiscard]] std::unique_ptr<LaunchedJob> start(std::vector<std::string> arguments) const {
    std::vector<std::string> prefix = hosts->on_network_of(1);
    prefix.insert(prefix.end(), {"sh", "-c", fmt::format("PATH={}/bin:$PATH exec \"$@\"", directory()), "sh"});
    arguments.insert(arguments.begin(), {"--grace", "0.5", "--host", "h1:2,h2:2"});
    return std::make_unique<LaunchedJob>(arguments, std::string{}, prefix);
  }

  /// Names of processes of the runtime on the hosts; ssh brings no variable along by which a job would know its own.
  [[nodiscard]] std::string running() const {
    std::string names;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
      const std::string name = entry.path().filename();
      pid_t pid = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{}) continue;
      if (!hosts->holds(1, pid) && !hosts->holds(2, pid)) continue;
      std::string command;
      std::ifstream{entry.path() / "comm"} >> command;
      if (command == "opald" || command == "opal-guard" || command == "sleep-of-rank") names += command + " ";
    }
    return names;
  }
};

TEST_F(Ssh, StartsTheDaemonsWhenNoOtherAgentIsNamed) {
  const auto job = start({"sh", "-c", "echo $(hostname) $OMPI_COMM_WORLD_RANK"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("h1 0", "h1 1", "h2 2", "h2 3"));
  EXPECT_TRUE(eventually([&] { return running().empty(); })) << running();
  EXPECT_EQ(job->leftovers(), "");
}

TEST_F(Ssh, LeavesNothingBehindWhenTheLauncherIsKilled) {
  ASSERT_TRUE(shell("ln -s $(command -v sleep) $d/bin/sleep-of-rank"));
  const auto job = start({"sh", "-c", fmt::format("echo up; exec {}/bin/sleep-of-rank 300", directory())});
  ASSERT_TRUE(eventually([&] { return lines_of(job->output()).size() == 4; }, std::chrono::seconds{60}));
  EXPECT_THAT(running(), HasSubstr("sleep-of-rank"));
  ::kill(job->pid(), SIGKILL);
  EXPECT_EQ(job->wait().status, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return running().empty(); })) << running();
}

/// The host is up, but refuses logins: what ssh says comes first, then the host by its name.
TEST_F(Ssh, AHostThatRefusesTheUserIsNamed) {
  ASSERT_TRUE(shell("rm $d/allowed"));
  const auto job = start({"true"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("Permission denied"));
  EXPECT_THAT(outcome.err, HasSubstr("opalrun: cannot start a daemon on host h"));
  EXPECT_THAT(outcome.err, HasSubstr("exited with status 255"));
  EXPECT_EQ(job->leftovers(), "");
}

}  // namespace
}  // namespace runtime::test
