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

/// The attributes for posix_spawn: default signals, `input` as stdin, and a process group of its own, so that the
/// terminal sends its signals only to the launcher.
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

Agent::~Agent() { kill(); }

Result<std::unique_ptr<Agent>> Agent::start(event::Loop& loop, const std::vector<std::string>& command,
                                            const std::string& input, std::function<void(int)> on_exit) {
  std::unique_ptr<Agent> agent{new Agent{loop, std::move(on_exit)}};
  OPAL_TRY_ASSIGN(const Fd reader, agent->input_.open());
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const Setup setup{reader.get()};
  if (const int error = ::posix_spawnp(&agent->pid_, argv[0], &setup.actions, &setup.attributes, argv.data(), environ);
      error != 0) {
    agent->pid_ = 0;
    return Error{Errc::os, error, "start of a launch agent"};
  }
  agent->pid_fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, agent->pid_, 0)));
  if (!agent->pid_fd_) return Error{Errc::os, errno, "pidfd_open(launch agent)"};
  agent->input_.add(input);
  agent->input_.add({});
  agent->watch_ = loop.on_readable(agent->pid_fd_.get(), [self = agent.get()] { self->ended(); });
  return agent;
}

void Agent::ended() {
  int status = 0;
  // After the death of the process guard, LocalHost::kill_orphans() may have reaped it; waitpid() then fails, status 0.
  if (::waitpid(pid_, &status, WNOHANG) == 0) return;
  watch_ = {};
  pid_ = 0;
  on_exit_(status);  // may destroy *this
}

void Agent::kill() noexcept {
  if (pid_ == 0) return;
  watch_ = {};
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string to_string(const std::vector<std::string>& command) { return fmt::format("{}", fmt::join(command, " ")); }

}  // namespace runtime::daemon
