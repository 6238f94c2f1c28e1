// SPDX-License-Identifier: Apache-2.0
// runtime/guard/handle.hpp — the launcher's side of its process guard: starts it, sends requests, receives reports.
// Requests return without waiting for the process guard; reports answer them (protocol.hpp).
// Threads: the launcher's main thread.  start() requires that no other thread exists.
#pragma once
#include <chrono>
#include <span>

#include "runtime/guard/protocol.hpp"
#include "runtime/guard/rank_process.hpp"

namespace runtime::guard {

/// argv of this process; the process guard overwrites it with its own name, for ps.  May be empty.
using CommandLine = std::span<char* const>;

class Handle {
 public:
  /// Forks the process guard.  `session_directory` need not exist yet.  Without a request for 1.25 times `timeout`, the
  /// process guard kills this process and all processes of the job, and exits; negative: never.  Errors: os.
  static Result<Handle> start(const std::string& session_directory, CommandLine command_line,
                              std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});

  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Readable when next() has a report or an error.  Owned by this object.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// Requests the start of `rank`; the answer is a report `started` or `refused`.  The descriptors of `stdio` are
  /// duplicated; the caller keeps its own.  Errors: peer_gone, os.
  Result<void> spawn(std::int32_t rank, const SpawnPlan& plan, const Stdio& stdio);

  /// Sends `signo` to the process group of `rank`, or for kEveryRank to those of all living ranks.  Errors: peer_gone,
  /// os.
  Result<void> signal(std::int32_t rank, int signo);

  /// Kills every process of the job; the answer is a report `empty`.  Errors: peer_gone, os.
  Result<void> kill_all();

  /// Restarts the timeout of the process guard, as every request does.  Errors: peer_gone, os.
  Result<void> alive();

  /// Sends SIGCONT to the process guard: while it is stopped, it reports nothing.  Each request does this, too.
  void wake() noexcept;

  /// Returns the next report; nothing when none is there.  Errors: peer_gone (the process guard died), os, protocol.
  Result<std::optional<Report>> next();

  /// Ends the process guard and waits for its exit.  Requires: no process of the job is left.
  void quit() noexcept;

 private:
  Handle(pid_t pid, Fd socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  Result<void> ask(const Request& request, const std::vector<int>& fds = {});
  pid_t pid_;
  Fd socket_;
};

}  // namespace runtime::guard
