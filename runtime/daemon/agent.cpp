// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace runtime::daemon {
namespace {

/// What posix_spawn is to do: signals as at a program's start, a process group of its own, so that the terminal's
/// signals come to the launcher alone; `input` as its stdin.
class Setup {
 public:
  explicit Setup(int input) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

}  // namespace

Agent::Agent(pid_t pid, Fd input, Fd pid_fd) noexcept
    : pid_(pid), input_(std::move(input)), pid_fd_(std::move(pid_fd)) {}

Agent::~Agent() { kill(); }

Result<std::unique_ptr<Agent>> Agent::start(event::Loop& loop, const std::vector<std::string>& command,
                                            const std::string& input, std::function<void(int)> on_exit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(stdin of a launch agent)"};
  const Fd reader{ends[0]};
  Fd writer{ends[1]};
  ::fcntl(writer.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const Setup setup{reader.get()};
  pid_t pid = 0;
  if (const int error = ::posix_spawnp(&pid, argv[0], &setup.actions, &setup.attributes, argv.data(), environ);
      error != 0) {
    return Error{Errc::os, error, "start of a launch agent"};
  }
  Fd pid_fd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  const int error = errno;
  std::unique_ptr<Agent> agent{new Agent{pid, std::move(writer), std::move(pid_fd)}};
  if (!agent->pid_fd_) return Error{Errc::os, error, "pidfd_open(launch agent)"};
  agent->on_exit_ = std::move(on_exit);
  agent->text_ = input;
  agent->writable_ = loop.on_writable(agent->input_.get(), [self = agent.get()] { self->write_some(); });
  agent->watch_ = loop.on_readable(agent->pid_fd_.get(), [self = agent.get()] { self->ended(); });
  return agent;
}

/// From the loop, as the agent reads; its stdin ends with the text: a pipe takes of what the user may have of them.
void Agent::write_some() {
  while (!text_.empty()) {
    const ssize_t written = ::write(input_.get(), text_.data(), text_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) break;  // it reads no more: its end is told, or the daemon that does not come
    text_.erase(0, static_cast<std::size_t>(written));
  }
  text_.clear();
  writable_ = {};
  input_.reset();
}

void Agent::ended() {
  int status = 0;
  watch_ = {};
  // A handler that reaps all children may have been faster; that it ended is known all the same.
  if (::waitpid(pid_, &status, WNOHANG) == 0) return;
  pid_ = 0;
  writable_ = {};
  input_.reset();
  on_exit_(status);
}

void Agent::kill() noexcept {
  if (pid_ == 0) return;
  watch_ = {};
  writable_ = {};
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string to_string(const std::vector<std::string>& command) { return fmt::format("{}", fmt::join(command, " ")); }

}  // namespace runtime::daemon
