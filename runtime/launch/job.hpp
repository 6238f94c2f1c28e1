// SPDX-License-Identifier: Apache-2.0
// runtime/launch/job.hpp — one job from its first rank to its last, on all its hosts: what to make of what happens to
// ranks, and when the job is over.
// The phases only move forward: running (ranks live), ending (SIGTERM sent), emptying (SIGKILL to whatever is left),
// done.  The first failure decides the exit status and is reported once.  In a continuous job (--continuous) each
// failure is reported, and the job runs until the last rank has ended.  Threads: the loop's thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/host/rank_host.hpp"
#include "runtime/options/options.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::launch {

class Job {
 public:
  /// `name` is the launcher's, for its messages.  `on_emptied` runs when no process of the job is left, before the last
  /// output is written.
  Job(event::Loop& loop, std::string name, unsigned ranks, Options options, std::function<void()> on_emptied);
  ~Job();

  /// Adds a host, all before run(); the returned observer is for its making.  The host must outlive run().
  RankHostObserver observer_of(std::size_t host);
  void add(RankHost& host) { hosts_.push_back({&host}); }

  /// Runs the job to its end; the exit status.
  int run();

  /// A signal that the launcher was sent.
  void on_signal(int signo);

  /// The host is out of reach, and so are its ranks; their end is taken for granted.
  void on_lost(std::size_t host, int status, const std::string& why);

  /// Nothing has ended it yet.
  [[nodiscard]] bool goes_on() const noexcept { return phase_ == Phase::running; }

  /// A line of the launcher's own, after its name.
  void say(const std::string& text);

  [[nodiscard]] stdio::Output& output() noexcept { return output_; }
  /// Called when the launcher was continued: it may be in the terminal's foreground again.
  std::function<void()> on_continued = [] {};
  /// Called when a rank has ended, in whatever way, or with its host.
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

  /// A rank whose end is a failure; wait status 0: it did not leave the job properly.
  struct Failure {
    unsigned rank;
    int wait_status;
    bool left_properly;               // or never joined
    std::optional<Abort> abort = {};  // it asked for the end of the job
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
  void show_progress();
  void settle_start(const Rank& rank);
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
  [[nodiscard]] unsigned living() const noexcept;
  [[nodiscard]] std::string name_of(unsigned rank) const;
  [[nodiscard]] std::string what_follows() const;

  event::Loop& loop_;
  const std::string name_;
  const Options options_;
  const std::function<void()> on_emptied_;
  const Fd own_stderr_;  // stays open when silence_libraries() takes descriptor 2 away
  stdio::Output output_;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  unsigned ended_ = 0;
  unsigned unstarted_;  // neither running nor ended
  Phase phase_ = Phase::running;
  int status_ = 0;
  std::vector<Failure> failures_;  // in the order of their reports; the job ends because of one of them
  bool inquired_ = false;
  bool decision_overdue_ = false;
  bool decision_awaits_dying_ = false;  // else: that ranks end by themselves
  bool by_hand_ = false;                // ended by a signal or the timeout: the output may have no reader any more
  event::Timer timeout_;
  event::Timer decision_;
  event::Timer grace_;
  event::Timer progress_;  // on a terminal, until all ranks have been started
};

}  // namespace runtime::launch
