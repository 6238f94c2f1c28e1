// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/local_host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "opal/core/environment.hpp"
#include "runtime/guard/processes.hpp"
#include "runtime/host/messages.hpp"
#include "runtime/host/program.hpp"

namespace runtime::launch {
namespace {

constexpr std::size_t kStartsInFlight = 16;  // bounded, so that neither side's socket buffer can fill while both send
constexpr std::chrono::milliseconds kOrphanRound{10};
constexpr std::chrono::milliseconds kSlowGuard{1000};  // a second is more than it needs for any request
constexpr std::chrono::milliseconds kUnblockingRound{50};
constexpr int kLauncherFailed = 1;

}  // namespace

Result<Fd> open_null() {
  Fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  if (!null) return Error{Errc::os, errno, "open(/dev/null)"};
  return null;
}

LocalHost::LocalHost(event::Loop& loop, guard::Handle& guard, LocalPlan plan, LocalResources resources,
                     RankHostObserver observer)
    : loop_(loop),
      guard_(guard),
      plan_(std::move(plan)),
      resources_(std::move(resources)),
      observer_(std::move(observer)),
      ranks_(own().ranks.size()) {
  reports_ = loop_.on_readable(guard_.fd(), [this] { read_reports(); });
}

Result<void> LocalHost::open() {
  pmix::ServerUser& user = *this;
  OPAL_TRY_ASSIGN(server_, pmix::Server::start(loop_, plan_.job, user));
  return {};
}

const LocalHost::Rank* LocalHost::find(unsigned rank) const noexcept {
  const auto place = std::ranges::lower_bound(ranks(), rank);
  if (place == ranks().end() || *place != rank) return nullptr;
  return &ranks_[static_cast<std::size_t>(place - ranks().begin())];
}

pmix::Liveness LocalHost::liveness(unsigned rank) const {
  const Rank* const asked = find(rank);
  if (asked == nullptr) return pmix::Liveness::alive;  // another host knows
  if (asked->ended) return pmix::Liveness::ended;
  return asked->pid != 0 && guard::is_exiting(asked->pid) ? pmix::Liveness::ending : pmix::Liveness::alive;
}

std::vector<std::uint32_t> LocalHost::dying_ranks() const {
  std::vector<std::uint32_t> dying;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    // A rank without its connection counts as dying: the other ranks may fail because of it.
    if (rank.pid != 0 && !rank.ended && (rank.disconnected || guard::is_exiting(rank.pid))) dying.push_back(ranks()[i]);
  }
  return dying;
}

void LocalHost::start_more() {
  while (!ending_ && asked_ < ranks_.size() && asked_ - settled_ < kStartsInFlight) {
    const std::size_t index = asked_++;
    const auto started = start(index);
    if (started) continue;
    ++settled_;
    ranks_[index].ended = true;
    if (started.error().code == Errc::peer_gone) return;  // read_reports() sees it too
    loop_.post([this, rank = ranks()[index], why = opal::to_string(started.error())] {
      observer_(Refused{rank, kLauncherFailed, fmt::format("cannot start rank {}: {}", rank, why)});
    });
  }
}

Result<void> LocalHost::start(std::size_t index) {
  const unsigned rank = ranks()[index];
  OPAL_TRY_ASSIGN(const Fd in, resources_.input(rank));
  OPAL_TRY_ASSIGN(const Fd out, resources_.output(rank, stdio::Channel::out));
  OPAL_TRY_ASSIGN(const Fd err, resources_.output(rank, stdio::Channel::err));
  guard::SpawnPlan spawn{.path = plan_.path,
                         .arguments = plan_.arguments,
                         .environment = {},
                         .working_directory = plan_.working_directory,
                         .cpus = plan_.job.cpus[index],
                         .open_files = plan_.open_files};
  OPAL_TRY_ASSIGN(spawn.environment, environment(rank));
  return guard_.spawn(static_cast<std::int32_t>(rank), spawn, {in.get(), out.get(), err.get()});
}

Result<std::vector<std::string>> LocalHost::environment(unsigned rank) {
  Variables variables = plan_.shared;
  append(variables, rank_variables(rank, plan_.job.ranks, ranks()));
  OPAL_TRY_ASSIGN(const Variables of_server, server_->variables(rank));
  append(variables, of_server);
  return to_environment(variables);
}

void LocalHost::read_reports() {
  while (!empty_ && !guard_lost_) {
    auto report = guard_.next();
    if (!report) return guard_died();
    if (!report->has_value()) return;
    handle(**report);
  }
}

void LocalHost::handle(const guard::Report& report) {
  if (report.kind == guard::Report::Kind::empty) return emptied();
  const auto number = static_cast<unsigned>(report.rank);
  Rank* const rank = report.rank < 0 ? nullptr : find(number);
  if (rank == nullptr) return;
  if (rank->ended) {  // the report is about the rank's stand-in
    if (report.kind == guard::Report::Kind::started) return;
    stands_in_ = false;
    if (report.status != 0 && !ending_) say_awaited(number, "its stand-in failed");
    return stand_in();
  }
  switch (report.kind) {
    case guard::Report::Kind::started:
      ++settled_;
      rank->pid = report.pid;
      observer_(Started{number, report.pid});
      if (plan_.report_bindings) {
        const Cpus& cpus = plan_.job.cpus[static_cast<std::size_t>(rank - ranks_.data())];
        observer_(
            Say{fmt::format("rank {} is {}", number, cpus.empty() ? "not bound" : "bound to " + to_string(cpus))});
      }
      // Signals that went to all ranks before this one existed.
      if (ending_) (void)guard_.signal(report.rank, SIGTERM);
      return start_more();
    case guard::Report::Kind::refused:
      ++settled_;
      rank->ended = true;
      return observer_(Refused{
          number, report.step == guard::Step::exec ? status_of_exec_error(report.status) : kLauncherFailed,
          describe_refusal(report.rank, report.step, report.status, plan_.arguments[0], plan_.working_directory)});
    case guard::Report::Kind::exited: {
      rank->ended = true;
      if (report.status == 0) miss(*rank);
      observer_(Exited{number, report.status, !server_->is_initialized(number)});
      return server_->on_rank_ended();
    }
    case guard::Report::Kind::empty: return;
  }
}

void LocalHost::signal(int signo, bool ends_the_job) {
  ending_ = ending_ || ends_the_job;
  if (!guard_lost_) (void)guard_.signal(guard::kEveryRank, signo);
}

void LocalHost::kill_all() {
  ending_ = true;
  if (guard_lost_) return;
  (void)guard_.kill_all();
  unblocking_ = loop_.after(kSlowGuard, [this] { unblock_guard(); });
}

/// The process guard waits for each execve().  If the file system does not answer, it blocks and cannot kill the job;
/// then this function kills its children, also the one in execve().
void LocalHost::unblock_guard() {
  if (empty_ || guard_lost_) return;
  guard::kill_children(guard_.pid());
  unblocking_ = loop_.after(kUnblockingRound, [this] { unblock_guard(); });
}

/// `rank` lost its connection to the PMIx server.  If it has not ended after kSlowGuard, end_disconnected() kills it.
void LocalHost::on_disconnected(unsigned rank) {
  Rank* const member = find(rank);
  if (member == nullptr || member->ended || member->disconnected) return;
  member->disconnected = loop_.after(kSlowGuard, [this, rank] { end_disconnected(rank); });
}

void LocalHost::end_disconnected(unsigned rank) {
  const Rank* const member = find(rank);
  if (member->ended || guard_lost_) return;
  guard_.wake();  // when a rank has died and is not reported
  if (ending_ || guard::is_exiting(member->pid)) return;
  observer_(Say{
      fmt::format("rank {} (pid {}) runs on without its connection to the launcher, and is killed: a program must not "
                  "close descriptors that it has not opened",
                  rank, member->pid)});
  (void)guard_.signal(static_cast<std::int32_t>(rank), SIGKILL);
}

void LocalHost::announce_death(unsigned rank) {
  server_->announce_death(rank);
  Rank* const dead = find(rank);
  if (dead == nullptr) return;
  dead->reported = true;
  miss(*dead);
}

/// Marks `rank` for a stand-in.  Posted, since the job may end in the current call.
void LocalHost::miss(Rank& rank) {
  rank.missed = true;
  loop_.post([this] { stand_in(); });
}

/// Starts a stand-in (pmix::stand_in) where ranks of this host wait for one that ended before it joined.
void LocalHost::stand_in() {
  if (ending_ || stands_in_) return;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const unsigned rank = ranks()[i];
    if (!ranks_[i].missed || server_->has_joined(rank) || !server_->has_initialized_ranks()) continue;
    ranks_[i].missed = false;
    if (!ranks_[i].reported && !std::exchange(said_absence_, true)) {
      observer_(Say{fmt::format("rank {} ended and has not joined the job, which other ranks have", rank)});
    }
    const auto started = start_stand_in(rank);
    if (started) {
      stands_in_ = true;
      return;
    }
    say_awaited(rank, opal::to_string(started.error()));
  }
}

void LocalHost::say_awaited(unsigned rank, const std::string& why) {
  observer_(Say{fmt::format("rank {} ended before it joined the job, and ranks that wait for it may do so for ever: {}",
                            rank, why)});
}

Result<void> LocalHost::start_stand_in(unsigned rank) {
  OPAL_TRY_ASSIGN(const Fd null, open_null());
  OPAL_TRY_ASSIGN(const auto of_server, server_->variables(rank));
  Variables variables = opal::environment_with_prefix("");
  append(variables, of_server);
  const guard::SpawnPlan spawn{.path = "/proc/self/exe",
                               .arguments = {std::string{pmix::kStandInName}},
                               .environment = to_environment(variables),
                               .working_directory = {},
                               .cpus = {},
                               .open_files = 0};
  return guard_.spawn(static_cast<std::int32_t>(rank), spawn, {null.get(), null.get(), null.get()});
}

/// The process guard has died: the kernel kills the ranks (PR_SET_PDEATHSIG), and this process, a subreaper, inherits
/// all other processes of the job.
void LocalHost::guard_died() {
  if (guard_lost_) return;
  guard_lost_ = ending_ = true;
  reports_ = {};
  for (Rank& rank : ranks_) rank.ended = true;
  observer_(Trouble{
      128 + SIGKILL,
      fmt::format("the process that looks after the ranks (opal-guard, pid {}) died; ending the job", guard_.pid())});
  kill_orphans();
}

void LocalHost::kill_orphans() {
  guard::kill_children();
  if (!guard::reap_children([](pid_t, int) {})) return emptied();
  orphans_ = loop_.after(kOrphanRound, [this] { kill_orphans(); });
}

void LocalHost::emptied() {
  if (empty_) return;
  empty_ = true;
  reports_ = {};
  orphans_ = {};
  unblocking_ = {};
  resources_.drain();
  observer_(Emptied{});
}

}  // namespace runtime::launch
