// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/launched_job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace runtime::test {
namespace {

namespace fs = std::filesystem;
constexpr char kMark[] = "OPAL_INTERNAL_TEST_JOB";
constexpr int kDeadlineMs = 60'000;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator{directory, error}) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_zombie(pid_t pid) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.substr(name_end + 2, 1) == "Z" || stat.substr(name_end + 2, 1) == "X";
}

std::string command_of(pid_t pid) {
  std::string text = text_of(fmt::format("/proc/{}/comm", pid));
  if (!text.empty()) text.pop_back();
  return text;
}

/// Something to read from: a file, so that no writer is needed.
opal::Fd input_with(const std::string& input) {
  char path[] = "/tmp/opal-test-input-XXXXXX";
  opal::Fd fd{::mkstemp(path)};
  ::unlink(path);
  EXPECT_EQ(::write(fd.get(), input.data(), input.size()), static_cast<ssize_t>(input.size()));
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

}  // namespace

LaunchedJob::LaunchedJob(const std::vector<std::string>& arguments, const std::string& input,
                         const std::vector<std::string>& prefix) {
  static int counter = 0;
  mark_ = fmt::format("{}-{}", ::getpid(), ++counter);
  directory_ = fs::path{::testing::TempDir()} / ("opal-test-" + mark_);
  fs::create_directories(directory_);
  shared_memory_before_ = names_in("/dev/shm");

  int out[2];
  int err[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
  out_.reset(out[0]);
  err_.reset(err[0]);
  const opal::Fd their_out{out[1]};
  const opal::Fd their_err{err[1]};
  const opal::Fd in = input_with(input);
  std::vector<std::string> command = prefix;
  command.emplace_back(OPALRUN_PATH);
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : command) argv.push_back(text.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setenv(kMark, mark_.c_str(), 1);
    ::setenv("TMPDIR", directory_.c_str(), 1);
    ::dup2(in.get(), 0);
    ::dup2(their_out.get(), 1);
    ::dup2(their_err.get(), 2);
    ::execvp(argv[0], argv.data());
    ::_exit(126);
  }
}

LaunchedJob::~LaunchedJob() {
  if (pid_ != 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

/// False when nothing came in time or both outputs have ended.
bool LaunchedJob::read_some(int timeout_ms) {
  pollfd ready[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  if ((!out_ && !err_) || ::poll(ready, 2, timeout_ms) <= 0) return false;
  std::array<char, 65536> buffer;
  for (const auto& [fd, text, events] :
       {std::tuple{&out_, &outcome_.out, ready[0].revents}, std::tuple{&err_, &outcome_.err, ready[1].revents}}) {
    if (events == 0) continue;
    const ssize_t size = ::read(fd->get(), buffer.data(), buffer.size());
    if (size > 0 && fd == &out_ && consumer_) {
      consumer_({buffer.data(), static_cast<std::size_t>(size)});
    } else if (size > 0) {
      text->append(buffer.data(), static_cast<std::size_t>(size));
    } else {
      fd->reset();
    }
  }
  return true;
}

Outcome LaunchedJob::wait() {
  while (read_some(kDeadlineMs)) continue;
  EXPECT_TRUE(!out_ && !err_) << "opalrun did not end; stderr: " << outcome_.err;
  if (out_ || err_) ::kill(pid_, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = 0;
  outcome_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome_;
}

bool LaunchedJob::wait_for_output(const std::string& text) {
  while (outcome_.out.find(text) == std::string::npos) {
    if (!read_some(kDeadlineMs)) return false;
  }
  return true;
}

const std::string& LaunchedJob::output() {
  while (read_some(0)) continue;
  return outcome_.out;
}

std::vector<pid_t> LaunchedJob::processes() const {
  const std::string mark = fmt::format("{}={}", kMark, mark_);
  std::vector<pid_t> found;
  for (const std::string& name : names_in("/proc")) {
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{} || is_zombie(pid)) continue;
    std::istringstream environment{text_of(fmt::format("/proc/{}/environ", pid))};
    for (std::string variable; std::getline(environment, variable, '\0');) {
      if (variable == mark) {
        found.push_back(pid);
        break;
      }
    }
  }
  return found;
}

bool LaunchedJob::wait_for_processes(int count) const {
  return eventually([&] { return processes().size() >= static_cast<std::size_t>(count); });
}

pid_t LaunchedJob::guard() const {
  pid_t found = 0;
  eventually([&] {
    for (const pid_t pid : processes()) {
      if (command_of(pid) == "opal-guard") found = pid;
    }
    return found != 0;
  });
  return found;
}

std::string LaunchedJob::leftovers() const {
  std::string what;
  eventually([&] {
    what.clear();
    for (const pid_t pid : processes()) what += fmt::format("process {} ({}); ", pid, command_of(pid));
    for (const std::string& name : names_in(directory_)) what += fmt::format("file {}; ", name);
    for (const std::string& name : names_in("/dev/shm")) {
      const auto& before = shared_memory_before_;
      if (std::find(before.begin(), before.end(), name) == before.end() && name.find("opal") != std::string::npos) {
        what += fmt::format("shared memory {}; ", name);
      }
    }
    return what.empty();
  });
  return what;
}

Outcome run_job(const std::vector<std::string>& arguments, const std::string& input) {
  LaunchedJob job{arguments, input};
  Outcome outcome = job.wait();
  EXPECT_EQ(job.leftovers(), "");
  return outcome;
}

std::string helper(const std::string& name) { return fmt::format("{}/{}", HELPER_DIRECTORY, name); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void sleep_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds{2}); }

}  // namespace runtime::test
