// SPDX-License-Identifier: Apache-2.0
// runtime/host/local_host.hpp — the ranks of the host that this process runs on.  LocalHost starts them through the
// process guard, serves their PMIx calls and reports what happens to them.  The launcher uses it for its own host, a
// daemon for its host.  The loop and the guard::Handle must outlive it.  Threads: the loop's thread.
#pragma once
#include "runtime/event/loop.hpp"
#include "runtime/guard/handle.hpp"
#include "runtime/host/binding.hpp"
#include "runtime/host/environment.hpp"
#include "runtime/host/rank_host.hpp"
#include "runtime/pmix/server.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::launch {

/// Everything decided before the first rank starts.
struct LocalPlan {
  pmix::JobDescription job;            ///< what the PMIx server publishes to the ranks
  std::string path;                    ///< of the program
  std::vector<std::string> arguments;  ///< with the program's name first
  std::string working_directory;
  Variables shared;              ///< the variables that all ranks of this host have in common
  std::uint64_t open_files = 0;  ///< SpawnPlan::open_files
  bool report_bindings = false;
};

/// The stdio of the ranks.  input and output are called once per rank and channel, when it starts.
struct LocalResources {
  std::function<Result<Fd>(unsigned rank)> input;                   ///< makes the rank's stdin
  std::function<Result<Fd>(unsigned rank, stdio::Channel)> output;  ///< makes the rank's stdout or stderr
  std::function<void()> drain;                                      ///< reads the pipes to their end; no rank lives
};

/// Opens /dev/null for reading and writing.  Errors: os.
Result<Fd> open_null();

class LocalHost final : public RankHost, private pmix::ServerUser {
 public:
  LocalHost(event::Loop& loop, guard::Handle& guard, LocalPlan plan, LocalResources resources,
            RankHostObserver observer);
  /// Starts the PMIx server of the ranks, before start().  Errors: those of pmix::Server::start.
  Result<void> open();
  /// Null until open() has succeeded.
  [[nodiscard]] pmix::Server* server() const noexcept { return server_.get(); }

  [[nodiscard]] const std::string& name() const noexcept override { return own().name; }
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const noexcept override { return own().ranks; }
  void start() override { start_more(); }
  void signal(int signo, bool ends_the_job) override;
  void kill_all() override;
  void announce_death(unsigned rank) override;
  [[nodiscard]] std::size_t starting() const noexcept override { return guard_lost_ ? 0 : asked_ - settled_; }
  [[nodiscard]] std::vector<std::uint32_t> dying_ranks() const override;

 private:
  struct Rank {
    pid_t pid = 0;  // 0 until the process guard reports it
    bool ended = false;
    bool missed = false;          // it ended and the job goes on: it may need a stand-in
    bool reported = false;        // announce_death() was called for it
    event::Timer disconnected{};  // runs since it lost its connection to the PMIx server; then it is killed
  };
  [[nodiscard]] const pmix::HostRanks& own() const noexcept { return plan_.job.hosts[plan_.job.own_host]; }
  [[nodiscard]] const Rank* find(unsigned rank) const noexcept;
  [[nodiscard]] Rank* find(unsigned rank) noexcept { return const_cast<Rank*>(std::as_const(*this).find(rank)); }
  // pmix::ServerUser
  void on_abort(unsigned rank, int status, const std::string& text) override { observer_(Abort{rank, status, text}); }
  [[nodiscard]] pmix::Liveness liveness(unsigned rank) const override;
  void on_joined() override { stand_in(); }
  void on_disconnected(unsigned rank) override;
  void on_checkpoint(unsigned rank, const std::string& text) override { observer_(Checkpoint{rank, text}); }
  void stand_in();
  Result<std::vector<std::string>> environment(unsigned rank);
  void start_more();
  Result<void> start(std::size_t index);
  Result<void> start_stand_in(unsigned rank);
  void say_awaited(unsigned rank, const std::string& why);
  void miss(Rank& rank);
  void read_reports();
  void handle(const guard::Report& report);
  void guard_died();
  void end_disconnected(unsigned rank);
  void unblock_guard();
  void kill_orphans();
  void emptied();

  event::Loop& loop_;
  guard::Handle& guard_;
  const LocalPlan plan_;
  const LocalResources resources_;
  const RankHostObserver observer_;
  std::unique_ptr<pmix::Server> server_;
  std::vector<Rank> ranks_;    // in the order of ranks()
  std::size_t asked_ = 0;      // ranks requested from the process guard
  std::size_t settled_ = 0;    // ranks of these that have been started or refused
  bool stands_in_ = false;     // a stand-in runs: one at a time
  bool said_absence_ = false;  // the message about a rank that did not join has been printed
  bool ending_ = false;        // the job ends: no further start
  bool empty_ = false;         // no process of the job is left on this host
  bool guard_lost_ = false;    // the process guard has died
  event::Watch reports_;
  event::Timer orphans_;     // next round of kill_orphans()
  event::Timer unblocking_;  // next round of unblock_guard()
};

}  // namespace runtime::launch
