// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/agent.hpp — the process that starts a daemon on another host: ssh, srun, or a command of the user's.
// It is called as `COMMAND... HOST DAEMON` and must run DAEMON there with our pipe as its stdin.
// Owns the process: killed when this is destroyed.  Threads: the loop's thread.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/daemon/input.hpp"

namespace runtime::daemon {

class Agent {
 public:
  /// Starts `command`; its stdin is `input`, which the loop writes as it is read: a pipe takes of what the user may
  /// have of them.  `on_exit` gets its wait status, once, and not from inside of start().  Its stderr is ours.
  /// Errors: os.
  static Result<std::unique_ptr<Agent>> start(event::Loop& loop, const std::vector<std::string>& command,
                                              const std::string& input, std::function<void(int wait_status)> on_exit);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  [[nodiscard]] bool running() const noexcept { return pid_ != 0; }
  void kill() noexcept;

 private:
  Agent(event::Loop& loop, std::function<void(int)> on_exit)
      : input_(loop, [](std::uint64_t) {}), on_exit_(std::move(on_exit)) {}
  void ended();
  pid_t pid_ = 0;
  InputSink input_;
  Fd pid_fd_;
  const std::function<void(int)> on_exit_;
  event::Watch watch_;
};

/// "ssh -x h1 opald", for messages.
std::string to_string(const std::vector<std::string>& command);

}  // namespace runtime::daemon
