// SPDX-License-Identifier: Apache-2.0
// opalrun on a terminal: prompts are shown, typed lines reach rank 0, Ctrl-C and Ctrl-Z do what they do elsewhere.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "opal/core/environment.hpp"
#include "tests/harness/process.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using opal::test::state_of;
using ::testing::HasSubstr;

/// opalrun as the leader of a session with a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> arguments, unsigned short columns = 80) {
    arguments.insert(arguments.begin(), OPALRUN_PATH);
    std::vector<char*> argv;
    for (std::string& text : arguments) argv.push_back(text.data());
    argv.push_back(nullptr);
    int terminal = -1;
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
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

/// An agent that starts a daemon on this host, once `gate` is there.
std::string gated_agent(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "agent";
  std::ofstream{path} << "#!/bin/sh\nwhile [ ! -e " << (directory / "gate").string()
                      << " ]; do sleep 0.05; done\nshift\nexec \"$@\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

class Progress : public ::testing::Test {
 protected:
  Progress() : directory_(fmt::format("{}opal-progress-{}", ::testing::TempDir(), ::getpid())) {
    std::filesystem::create_directories(directory_);
    arguments_ = {"--launch-agent",
                  gated_agent(directory_),
                  "--host",
                  opal::host_name() + ":1,slow:1",
                  "sh",
                  "-c",
                  "echo rank $OMPI_COMM_WORLD_RANK"};
  }
  ~Progress() override { std::filesystem::remove_all(directory_); }
  void open_gate() { std::ofstream{directory_ / "gate"}; }

  std::filesystem::path directory_;
  std::vector<std::string> arguments_;
};

/// The lines that a terminal shows in the end of what was written to it: a carriage return goes back to the first
/// column.  `longest` becomes the length of the longest one that was ever shown.
std::vector<std::string> lines_left(const std::string& written, std::size_t& longest) {
  std::vector<std::string> lines{""};
  std::size_t column = 0;
  for (const char c : written) {
    if (c == '\n') {
      lines.emplace_back();
    } else if (c == '\r') {
      column = 0;
    } else {
      std::string& line = lines.back();
      if (column == line.size()) line += ' ';
      line[column++] = c;
      longest = std::max(longest, line.size());
    }
    if (c == '\n') column = 0;
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

TEST_F(Progress, OfALongStartIsShownOnATerminalAndGoneAtTheEnd) {
  constexpr unsigned short kColumns = 40;
  OnTerminal job{arguments_, kColumns};
  ASSERT_TRUE(job.shows("opalrun: 1 of 2 ranks started; waiting")) << job.shown();
  open_gate();
  EXPECT_EQ(job.wait(), 0) << job.shown();
  std::size_t longest = 0;
  const auto lines = lines_left(job.shown(), longest);
  EXPECT_THAT(lines, ::testing::UnorderedElementsAre("rank 0", "rank 1", "")) << job.shown();
  EXPECT_LT(longest, kColumns) << job.shown();
}

TEST_F(Progress, IsNotShownElsewhere) {
  arguments_.insert(arguments_.begin(), {"--timeout", "1.5"});  // three times as long as a terminal is spared it
  const Outcome job = run_job(arguments_);
  EXPECT_EQ(job.status, 124);
  EXPECT_THAT(lines_of(job.err), ::testing::ElementsAre(HasSubstr("did not end within --timeout"))) << job.err;
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
