// SPDX-License-Identifier: Apache-2.0
// Launch agents: they get their text whole, however slowly they read, and keep no pipe.
#include "runtime/daemon/agent.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace runtime::daemon {
namespace {

/// Runs the loop until all `count` agents have ended; how many ended with status 0.
int run(const std::vector<std::string>& command, const std::string& text, int count) {
  auto loop = event::Loop::create();
  int ended = 0;
  int succeeded = 0;
  std::vector<std::unique_ptr<Agent>> agents;
  for (int i = 0; i < count; ++i) {
    auto agent = Agent::start(**loop, command, text, [&](int status) {
      succeeded += status == 0 ? 1 : 0;
      if (++ended == count) (*loop)->stop();
    });
    if (!agent) return -1;
    agents.push_back(std::move(*agent));
  }
  (*loop)->run();
  return succeeded;
}

TEST(Agent, GetsATextThatIsLongerThanAPipeHoldsAndThenTheEndOfItsInput) {
  EXPECT_EQ(run({"sh", "-c", "[ $(wc -c) = 300000 ]"}, std::string(300'000, 'x'), 3), 3);
}

TEST(Agent, ThatReadsNothingAndEndsIsToldAndEndsNothingElse) {
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ASSERT_EQ(::sigprocmask(SIG_BLOCK, &pipe_signal, nullptr), 0);  // as the launcher has it
  EXPECT_EQ(run({"sh", "-c", "exit 0"}, std::string(300'000, 'x'), 1), 1);
}

/// As an ordinary user, whose pipes shrink when they have more than pipe-user-pages-soft pages together.
int pipe_size_beside_agents(int count) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    auto loop = event::Loop::create();
    std::vector<std::unique_ptr<Agent>> agents;
    for (int i = 0; i < count; ++i) {
      auto agent = Agent::start(**loop, {"sleep", "300"}, "a line\n", [](int) {});
      if (!agent) ::_exit(3);
      agents.push_back(std::move(*agent));
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(4);
    const int size = ::fcntl(ends[1], F_GETPIPE_SZ);
    agents.clear();
    ::_exit(size >= 65536 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(Agent, SeventyOfThemLeaveThePipesOfAnOrdinaryUserAsTheyAre) { EXPECT_EQ(pipe_size_beside_agents(70), 0); }

}  // namespace
}  // namespace runtime::daemon
