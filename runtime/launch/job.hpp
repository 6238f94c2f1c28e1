// SPDX-License-Identifier: Apache-2.0
// runtime/launch/job.hpp — one job on all its hosts.  Job starts the ranks, receives the reports of the hosts, and
// decides when the job ends and with which exit status.
// The phases only move forward: running (ranks live), ending (SIGTERM sent), emptying (SIGKILL to every process that is
// left), done.  One failure, the likeliest cause, decides the exit status and is printed once.  In a continuous job
// (--continuous) each failure is printed, the first decides the status, and the job runs until the last rank has ended.
// Owns the Output.  Threads: the loop's thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "opal/core/clock.hpp"
#include "runtime/event/loop.hpp"
#include "runtime/host/rank_host.hpp"
#include "runtime/options/options.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::launch {

class Job {
 public:
  /// `name`: how the launcher was called, for its messages.  `on_emptied` runs when no process of the job is left,
  /// before the last output is written.
  Job(event::Loop& loop, std::string name, unsigned ranks, Options options, std::function<void()> on_emptied);

  // For each host, in the order of their numbers and before run(): make a RankHost that reports to observer_of(number),
  // then add() it.  It must outlive run().
  RankHostObserver observer_of(std::size_t host);
  void add(RankHost& host) { hosts_.push_back({&host}); }

  /// Runs the loop until the job is done and its output is written.  Returns the exit status of the launcher.
  int run();

  /// Handles a signal that the launcher has received: ends the job, or forwards the signal to the ranks.
  void on_signal(int signo);

  /// The host is lost.  Its ranks count as ended, and the host as emptied.
  void on_lost(std::size_t host, int status, const std::string& why);

  /// True while the phase is running.
  [[nodiscard]] bool goes_on() const noexcept { return phase_ == Phase::running; }

  /// Prints a line on stderr: the launcher's name and `text`.
  void say(const std::string& text);

  [[nodiscard]] stdio::Output& output() noexcept { return output_; }
  /// False while a signal for the ranks may still be on its way: the launcher does not stop itself yet.
  std::function<bool()> may_stop = [] { return true; };
  /// Called after SIGCONT: the launcher may be in the terminal's foreground again.
  std::function<void()> on_continued = [] {};
  /// Called once when a rank has ended in any way, or was not started, or its host is lost.
  std::function<void(unsigned rank)> on_ended = [](unsigned) {};
  std::function<void(const Checkpoint&)> on_checkpoint = [](const Checkpoint&) {};

 private:
  enum class Phase { running, ending, emptying, done };
  struct Rank {
    pid_t pid = 0;  // 0 until its host reports it
    bool ended = false;
    std::size_t host = 0;
  };
  struct Host {
    RankHost* host;
    bool empty = false;
    bool lost = false;
  };

  /// A rank whose end is a failure.  With wait status 0 and no abort, it did not leave the job properly.
  struct Failure {
    unsigned rank;
    int wait_status;
    bool left_properly;               // as in Exited
    std::optional<Abort> abort = {};  // it called PMIx_Abort; then wait_status has no meaning
    [[nodiscard]] int weight() const noexcept;
  };

  void on(std::size_t host, const Started& started);
  void on(std::size_t host, const Refused& refused);
  void on(std::size_t host, const Exited& exited);
  void on(std::size_t host, const Trouble& trouble);
  void on(std::size_t host, const Emptied& emptied);
  void on(std::size_t host, const Abort& abort);
  void on(std::size_t, const Checkpoint& checkpoint) { on_checkpoint(checkpoint); }
  void on(std::size_t, const Say& text) { say(text.line); }
  void on(std::size_t, const Answered&) { decide(); }
  bool note_end(unsigned rank);
  void decide();
  void announce_death(unsigned rank);
  [[nodiscard]] static int status_of(const Failure& failure) noexcept;
  [[nodiscard]] std::string describe(const Failure& failure) const;
  [[nodiscard]] bool has_aborted(unsigned rank) const noexcept;
  [[nodiscard]] std::string silent_hosts() const;
  [[nodiscard]] bool cause_may_come() const;
  void inquire();
  [[nodiscard]] bool continues() const noexcept;
  void go_on_without(int status, const std::string& what);
  void fail(int status, const std::string& message, int signo);
  static void silence_libraries();
  void end_with(int signo);
  void empty();
  void emptied();
  void signal_all(int signo, bool ends_the_job);
  void stop(opal::Deadline deadline);
  [[nodiscard]] unsigned living() const noexcept;
  [[nodiscard]] std::string name_of(unsigned rank) const;
  [[nodiscard]] std::string what_follows() const;

  event::Loop& loop_;
  const std::string name_;
  const Options options_;
  const std::function<void()> on_emptied_;
  const Fd own_stderr_;  // copy of descriptor 2, which silence_libraries() redirects to /dev/null
  stdio::Output output_;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  unsigned ended_ = 0;  // number of ranks that have ended
  Phase phase_ = Phase::running;
  int status_ = 0;
  std::vector<Failure> failures_;       // in the order of their reports; decide() chooses the cause among them
  bool inquired_ = false;               // inquire() has run
  bool decision_overdue_ = false;       // decision_ has run: decide with the failures known now
  bool decision_awaits_dying_ = false;  // decision_ waits for dying ranks; false: for ranks to end by themselves
  bool by_hand_ = false;                // ended by a signal or the timeout: the output may have no reader any more
  event::Timer timeout_;                // --timeout
  event::Timer decision_;               // latest time of decide()
  event::Timer grace_;                  // next phase: ending -> emptying -> done
  event::Timer stop_;                   // next test whether the launcher may stop
};

}  // namespace runtime::launch
