// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/agent.hpp — a launch agent: the process that starts a daemon on another host (ssh, srun, or the
// command of --launch-agent).  The launcher runs it as `COMMAND... HOST DAEMON`; it must run DAEMON on HOST and pass
// its own stdin, a pipe, on to it.  An Agent owns the process: the destructor kills it.  Threads: the loop's thread.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/daemon/input.hpp"

namespace runtime::daemon {

class Agent {
 public:
  /// Starts `command` (argv).  Its stdin is a pipe into which the loop writes `input`, as fast as the agent reads.  Its
  /// stdout is /dev/null, its stderr that of this process.  `on_exit` runs once in the loop with the wait status when
  /// the agent ends by itself; it may destroy the Agent.  It does not run after kill().  Errors: os.
  static Result<std::unique_ptr<Agent>> start(event::Loop& loop, const std::vector<std::string>& command,
                                              const std::string& input, std::function<void(int wait_status)> on_exit);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  [[nodiscard]] bool running() const noexcept { return pid_ != 0; }
  /// Sends SIGKILL and reaps the process.  Does nothing if it has ended.
  void kill() noexcept;

 private:
  Agent(event::Loop& loop, std::function<void(int)> on_exit)
      : input_(loop, [](std::uint64_t) {}), on_exit_(std::move(on_exit)) {}
  void ended();
  pid_t pid_ = 0;  // 0: not started, or ended and reaped
  InputSink input_;
  Fd pid_fd_;
  const std::function<void(int)> on_exit_;
  event::Watch watch_;
};

/// The words separated by spaces, for messages: "ssh -x h1 opald".
std::string to_string(const std::vector<std::string>& command);

}  // namespace runtime::daemon
