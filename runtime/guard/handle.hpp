// SPDX-License-Identifier: Apache-2.0
// runtime/guard/handle.hpp — the launcher's side of its process guard: start it, ask it, hear from it.
// Threads: the launcher's main thread, and start() before any other thread exists.
#pragma once
#include <chrono>
#include <span>

#include "runtime/guard/protocol.hpp"
#include "runtime/guard/rank_process.hpp"

namespace runtime::guard {

/// Where the command line of this process lies, to rename the process guard in ps; may be empty.
using CommandLine = std::span<char* const>;

class Handle {
 public:
  /// Forks the process guard.  `session_directory` need not exist yet.  `timeout`: how long alive() may stay out,
  /// before the process guard kills this process, the ranks and itself; negative: for ever.  Errors: os.
  static Result<Handle> start(const std::string& session_directory, CommandLine command_line,
                              std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});

  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Readable when next() has something to say.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// Asks for a rank; the answer is a report `started` or `refused`.  Errors: peer_gone, os.
  Result<void> spawn(std::int32_t rank, const SpawnPlan& plan, const Stdio& stdio);

  /// Signals the process group of `rank`, or with kEveryRank of all that live.  Errors: peer_gone, os.
  Result<void> signal(std::int32_t rank, int signo);

  /// Kills every process of the job; the answer is a report `empty`.  Errors: peer_gone, os.
  Result<void> kill_all();

  /// Tells a process guard with timeout that this process runs.  Errors: peer_gone, os.
  Result<void> alive();

  /// Continues a process guard that a signal has stopped: no end of a process would be noticed.  Each request does it,
  /// too.
  void wake() noexcept;

  /// The next report, or nothing when there is none now.  Errors: peer_gone (the process guard died), os, protocol.
  Result<std::optional<Report>> next();

  /// Ends the process guard and waits for it; the job must be empty.
  void quit() noexcept;

 private:
  Handle(pid_t pid, Fd socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  Result<void> ask(const Request& request, const std::vector<int>& fds = {});
  pid_t pid_;
  Fd socket_;
};

}  // namespace runtime::guard
