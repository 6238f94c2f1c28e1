// SPDX-License-Identifier: Apache-2.0
// runtime/launch/job.hpp — one job from its first rank to its last: starts the ranks, watches them, ends them.
// The phases only move forward: running (ranks live), ending (SIGTERM sent), emptying (SIGKILL to whatever is left),
// done.  The first failure decides the exit status and is reported once.  Threads: the loop's thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/launch/binding.hpp"
#include "runtime/launch/options.hpp"
#include "runtime/pmix/server.hpp"
#include "runtime/stdio/output.hpp"
#include "runtime/stdio/terminal_input.hpp"
#include "runtime/warden/handle.hpp"

namespace runtime::launch {

/// Everything decided before the first rank starts.
struct JobPlan {
  std::string name;  ///< of the launcher, for its messages
  std::string job_id;
  std::string host;
  unsigned ranks = 0;
  std::string path;                    ///< of the program
  std::vector<std::string> arguments;  ///< with the program's name first
  std::string working_directory;
  std::vector<Cpus> cpus;  ///< per rank; empty: not bound
  std::uint64_t open_files = 0;
  Options options;
};

/// Adds what a rank needs in its environment, as "NAME=VALUE"; asked once per rank.
using RankEnvironment = std::function<Result<std::vector<std::string>>(int rank)>;

/// Knows what ranks do besides running; called from the loop's thread.
struct RankObserver {
  std::function<void(int rank)> on_failed;      ///< the first one that failed, before the others are ended
  std::function<void(int rank)> on_ended;       ///< any rank, after what follows from it was decided
  std::function<bool(int rank)> left_properly;  ///< false: it still takes part in the job, so its end is a failure
  std::function<void()> on_emptied;             ///< no process of the job is left
};

class Job {
 public:
  Job(event::Loop& loop, warden::Handle& warden, JobPlan plan, RankEnvironment environment, RankObserver observer);
  ~Job();

  /// Runs the job to its end; the exit status.
  int run();

  /// A rank asked for the end of the job.
  void on_abort(int rank, int status, const std::string& text);

  /// A signal that the launcher was sent.
  void on_signal(int signo);

  /// A line of the launcher's own, after its name.
  void say(const std::string& text);

  [[nodiscard]] pmix::Liveness liveness(int rank) const;

 private:
  enum class Phase { running, ending, emptying, done };
  struct Rank {
    pid_t pid = 0;  // 0 until the warden reports it
    bool ended = false;
  };

  /// A rank whose end is a failure; wait status 0: it did not leave the job properly.
  struct Failure {
    int rank;
    pid_t pid;
    int wait_status;
  };

  void start_more();
  Result<void> start(int rank);
  Result<Fd> input_for(int rank);
  void read_reports();
  void handle(const warden::Report& report);
  void on_exit(int rank, pid_t pid, int wait_status);
  void decide();
  void warden_died();
  void kill_orphans();
  void fail(int status, const std::string& message, int signo);
  static void silence_libraries();
  void end_with(int signo);
  void empty();
  void emptied();
  [[nodiscard]] unsigned living() const noexcept;
  [[nodiscard]] std::string what_follows() const;

  event::Loop& loop_;
  warden::Handle& warden_;
  const JobPlan plan_;
  const RankEnvironment environment_;
  const RankObserver observer_;
  const Fd own_stderr_;  // stays open when silence_libraries() takes descriptor 2 away
  stdio::Output output_;
  std::unique_ptr<stdio::TerminalInput> input_;
  std::vector<Rank> ranks_;
  unsigned asked_ = 0;    // ranks requested from the warden
  unsigned settled_ = 0;  // of those, answered
  unsigned ended_ = 0;
  Phase phase_ = Phase::running;
  int status_ = 0;
  std::vector<Failure> failures_;  // in the order of their reports; the job ends because of one of them
  bool decision_overdue_ = false;
  bool by_hand_ = false;  // ended by a signal or the timeout: nobody may be reading the output any more
  bool warden_lost_ = false;
  event::Watch reports_;
  event::Timer timeout_;
  event::Timer decision_;
  event::Timer grace_;
  event::Timer orphans_;
};

}  // namespace runtime::launch
