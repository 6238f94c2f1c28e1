// SPDX-License-Identifier: Apache-2.0
// opalrun on a terminal: prompts are shown, typed lines reach rank 0, Ctrl-C and Ctrl-Z do what they do elsewhere.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/harness/process.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using opal::test::state_of;
using ::testing::HasSubstr;

/// opalrun as the leader of a session with a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), OPALRUN_PATH);
    std::vector<char*> argv;
    for (std::string& text : arguments) argv.push_back(text.data());
    argv.push_back(nullptr);
    int terminal = -1;
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (pid_ == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
    terminal_.reset(terminal);
  }
  ~OnTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  void type(std::string_view text) {
    EXPECT_EQ(::write(terminal_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// Reads what is shown until `text` is part of it; false when that takes too long.
  bool shows(const std::string& text) {
    while (shown_.find(text) == std::string::npos) {
      pollfd ready{terminal_.get(), POLLIN, 0};
      std::array<char, 4096> buffer;
      if (::poll(&ready, 1, 20'000) <= 0) return false;
      const ssize_t size = ::read(terminal_.get(), buffer.data(), buffer.size());
      if (size <= 0) return false;  // EIO: opalrun has ended
      shown_.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return true;
  }

  int wait() {
    shows("\x01 never shown: reads to the end");
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  pid_t pid_ = 0;
  opal::Fd terminal_;
  std::string shown_;
};

TEST(Terminal, PromptWithoutNewlineIsShownAndTheAnswerReachesRankZero) {
  OnTerminal job{{"-n", "2", "sh", "-c",
                  "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 0; printf 'name? '; read name; echo \"hello $name\""}};
  ASSERT_TRUE(job.shows("name? ")) << job.shown();
  job.type("world\n");
  EXPECT_TRUE(job.shows("hello world")) << job.shown();
  EXPECT_EQ(job.wait(), 0) << job.shown();
}

TEST(Terminal, EndOfInputReachesRankZero) {
  OnTerminal job{{"-n", "1", "sh", "-c", "echo ready; cat; echo end"}};
  ASSERT_TRUE(job.shows("ready"));
  job.type("\x04");
  EXPECT_TRUE(job.shows("end")) << job.shown();
  EXPECT_EQ(job.wait(), 0);
}

TEST(Terminal, ControlCEndsTheJob) {
  OnTerminal job{{"-n", "2", "sh", "-c", "echo ready; sleep 300"}};
  ASSERT_TRUE(job.shows("ready"));
  job.type("\x03");
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_THAT(job.shown(), HasSubstr("received SIGINT: ending 2 ranks"));
}

TEST(Terminal, StopAndContinueReachTheRanks) {
  LaunchedJob job{{"-n", "2", "sh", "-c", "echo $$; exec sleep 300"}};
  ASSERT_TRUE(eventually([&] { return std::ranges::count(job.output(), '\n') == 2; }));
  std::vector<pid_t> ranks;  // as they print them: what runs in /proc may be on its way to become something else
  for (const std::string& line : lines_of(job.output())) ranks.push_back(std::stoi(line));
  ::kill(job.pid(), SIGTSTP);
  EXPECT_TRUE(
      eventually([&] { return state_of(job.pid()) == 'T' && state_of(ranks[0]) == 'T' && state_of(ranks[1]) == 'T'; }));
  ::kill(job.pid(), SIGCONT);
  EXPECT_TRUE(eventually([&] { return state_of(ranks[0]) != 'T' && state_of(ranks[1]) != 'T'; }));
  // A stopped job can be ended too.
  ::kill(job.pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(job.pid()) == 'T'; }));
  ::kill(job.pid(), SIGKILL);
  EXPECT_EQ(job.wait().status, 128 + SIGKILL);
  EXPECT_EQ(job.leftovers(), "");
}

}  // namespace
}  // namespace runtime::test
