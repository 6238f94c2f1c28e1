// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "opal/core/clock.hpp"

namespace opal::test {
namespace {

/// In the child: becomes the program.
int become(std::vector<std::string> command, const std::string& log, const Environment& environment) {
  const Fd file{::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
  if (!file || ::dup2(file.get(), STDOUT_FILENO) < 0 || ::dup2(file.get(), STDERR_FILENO) < 0) return 126;
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  std::perror(arguments[0]);
  return 127;
}

}  // namespace

Scratch::Scratch() {
  std::string path = (std::filesystem::temp_directory_path() / "opal-examples-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) std::abort();
  path_ = path;
}

Scratch::~Scratch() { std::filesystem::remove_all(path_); }

Program::Program(const std::vector<std::string>& command, std::string log, const Environment& environment)
    : log_(std::move(log)), child_([&](Channel&) { return become(command, log_, environment); }) {}

int Program::wait(std::chrono::seconds timeout) {
  const std::optional<int> status = child_.wait(timeout);
  if (!status) return -1;
  return WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
}

std::string Program::output() const {
  std::ifstream file{log_};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::string wait_for_line(const std::string& file) {
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  std::string line;
  while (!deadline.expired()) {
    std::ifstream input{file};
    if (std::getline(input, line) && !input.eof()) return line;  // a line without its end is still being written
    (void)::poll(nullptr, 0, 5);
  }
  return {};
}

}  // namespace opal::test
