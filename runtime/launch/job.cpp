// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/launch/liveness.hpp"
#include "runtime/launch/messages.hpp"
#include "runtime/launch/program.hpp"
#include "runtime/warden/descendants.hpp"

namespace runtime::launch {
namespace {

constexpr unsigned kStartsInFlight = 16;  // bounded, so that neither side's socket buffer can fill while both send
constexpr std::chrono::milliseconds kLongestEmptying{10'000};  // a process stuck in the kernel ignores SIGKILL
constexpr std::chrono::milliseconds kOrphanRound{10};
constexpr std::chrono::milliseconds kReaderPatience{5'000};
constexpr std::chrono::milliseconds kLongestDecision{1'000};  // waiting for a dying rank to be gone
constexpr int kTimeoutStatus = 124;
constexpr int kLauncherFailed = 1;

bool ends_the_job(int signo) { return signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT; }

}  // namespace

Job::Job(event::Loop& loop, warden::Handle& warden, JobPlan plan, RankEnvironment environment, RankObserver observer)
    : loop_(loop),
      warden_(warden),
      plan_(std::move(plan)),
      environment_(std::move(environment)),
      observer_(std::move(observer)),
      own_stderr_(::fcntl(2, F_DUPFD_CLOEXEC, 3)),
      output_(loop, {.tag = plan_.options.tag_output, .whole = plan_.ranks > 1, .err_fd = own_stderr_.get()}, [] {}),
      ranks_(plan_.ranks) {
  reports_ = loop_.on_readable(warden_.fd(), [this] { read_reports(); });
  if (plan_.options.timeout) {
    timeout_ = loop_.after(*plan_.options.timeout, [this] {
      by_hand_ = true;
      fail(kTimeoutStatus,
           fmt::format("the job did not end within --timeout {} s; ending {}",
                       static_cast<double>(plan_.options.timeout->count()) / 1000, count_of_ranks(living())),
           SIGTERM);
    });
  }
}

Job::~Job() = default;

int Job::run() {
  for (const std::string& warning : plan_.options.warnings) say(warning);
  start_more();
  loop_.run();
  reports_ = {};
  const std::chrono::milliseconds patience = by_hand_ ? kReaderPatience : std::chrono::milliseconds{0};
  output_.finish(patience);
  return status_;
}

void Job::say(const std::string& text) { output_.say(fmt::format("{}: {}", plan_.name, text)); }

pmix::Liveness Job::liveness(int rank) const {
  const Rank& asked = ranks_.at(static_cast<std::size_t>(rank));
  if (asked.ended) return pmix::Liveness::ended;
  return asked.pid != 0 && is_exiting(asked.pid) ? pmix::Liveness::ending : pmix::Liveness::alive;
}

void Job::start_more() {
  while (phase_ == Phase::running && asked_ < plan_.ranks && asked_ - settled_ < kStartsInFlight) {
    const int rank = static_cast<int>(asked_++);
    if (auto started = start(rank); !started) {
      ++settled_;
      ++ended_;
      ranks_[static_cast<unsigned>(rank)].ended = true;
      if (started.error().code == Errc::peer_gone) return;  // read_reports() sees it too
      fail(kLauncherFailed, fmt::format("cannot start rank {}: {}", rank, opal::to_string(started.error())), SIGTERM);
    }
  }
}

Result<void> Job::start(int rank) {
  OPAL_TRY_ASSIGN(const Fd in, input_for(rank));
  OPAL_TRY_ASSIGN(const Fd out, output_.open(rank, stdio::Channel::out));
  OPAL_TRY_ASSIGN(const Fd err, output_.open(rank, stdio::Channel::err));
  warden::SpawnPlan spawn{.path = plan_.path,
                          .arguments = plan_.arguments,
                          .environment = {},
                          .working_directory = plan_.working_directory,
                          .cpus = plan_.cpus[static_cast<unsigned>(rank)],
                          .open_files = plan_.open_files};
  OPAL_TRY_ASSIGN(spawn.environment, environment_(rank));
  return warden_.spawn(rank, spawn, {in.get(), out.get(), err.get()});
}

Result<Fd> Job::input_for(int rank) {
  if (rank == 0 && ::isatty(0) == 1) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(stdin of rank 0)"};
    input_ = std::make_unique<stdio::TerminalInput>(loop_, 0, Fd{ends[1]});
    return Fd{ends[0]};
  }
  if (rank == 0) {
    if (Fd ours{::fcntl(0, F_DUPFD_CLOEXEC, 3)}) return ours;
  }
  Fd null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (!null) return Error{Errc::os, errno, "open(/dev/null)"};
  return null;
}

void Job::read_reports() {
  while (phase_ != Phase::done) {
    auto report = warden_.next();
    if (!report) return warden_died();
    if (!report->has_value()) return;
    handle(**report);
  }
}

void Job::handle(const warden::Report& report) {
  if (report.kind == warden::Report::Kind::empty) return emptied();
  if (report.rank < 0 || static_cast<unsigned>(report.rank) >= plan_.ranks) return;
  Rank& rank = ranks_[static_cast<unsigned>(report.rank)];
  switch (report.kind) {
    case warden::Report::Kind::started:
      ++settled_;
      rank.pid = report.pid;
      if (plan_.options.report_bindings) {
        const Cpus& cpus = plan_.cpus[static_cast<unsigned>(report.rank)];
        say(fmt::format("rank {} is {}", report.rank, cpus.empty() ? "not bound" : "bound to " + to_string(cpus)));
      }
      // Signals that went to all ranks before this one existed.
      if (phase_ == Phase::ending) (void)warden_.signal(report.rank, SIGTERM);
      return start_more();
    case warden::Report::Kind::refused:
      ++settled_;
      ++ended_;
      rank.ended = true;
      fail(report.step == warden::Step::exec ? status_of_exec_error(report.status) : kLauncherFailed,
           describe_refusal(report.rank, report.step, report.status, plan_.arguments[0], plan_.working_directory),
           SIGTERM);
      if (ended_ == asked_) empty();
      return;
    case warden::Report::Kind::exited: return on_exit(report.rank, report.pid, report.status);
    case warden::Report::Kind::empty: return;
  }
}

void Job::on_exit(int rank_number, pid_t pid, int wait_status) {
  Rank& rank = ranks_[static_cast<unsigned>(rank_number)];
  if (rank.ended) return;
  rank.ended = true;
  ++ended_;
  const bool left = observer_.left_properly(rank_number);
  if (wait_status != 0 || !left) failures_.push_back({rank_number, pid, wait_status});
  decide();
  observer_.on_ended(rank_number);
  if (ended_ == asked_ && (asked_ == plan_.ranks || phase_ != Phase::running)) empty();
}

/// Says which failure ends the job.  A rank that dies often makes others fail at once, whose end may be reported first:
/// as long as some rank is dying, the cause may still be to come.
void Job::decide() {
  if (phase_ != Phase::running || failures_.empty()) return;
  for (unsigned rank = 0; rank < asked_; ++rank) {
    if (decision_overdue_ || liveness(static_cast<int>(rank)) != pmix::Liveness::ending) continue;
    if (!decision_) {
      decision_ = loop_.after(kLongestDecision, [this] {
        decision_overdue_ = true;
        decide();
      });
    }
    return;
  }
  decision_ = {};
  // Nobody is killed because a peer failed before the launcher has said so: a signal is the likeliest cause.
  const auto weight = [](const Failure& failure) {
    return WIFSIGNALED(failure.wait_status) ? 2 : failure.wait_status != 0 ? 1 : 0;
  };
  const Failure cause = *std::max_element(failures_.begin(), failures_.end(),
                                          [&](const Failure& a, const Failure& b) { return weight(a) < weight(b); });
  const std::string name = to_string(RankName{cause.rank, cause.pid, plan_.host});
  observer_.on_failed(cause.rank);
  if (cause.wait_status != 0) {
    fail(exit_status_of(cause.wait_status),
         fmt::format("{} {}{}", name, describe_end(cause.wait_status), what_follows()), SIGTERM);
  } else {
    fail(kLauncherFailed,
         fmt::format("{} exited with status 0 without leaving the job (MPI_Finalize or the like){}", name,
                     what_follows()),
         SIGTERM);
  }
}

std::string Job::what_follows() const {
  const unsigned others = living();
  if (others == 0) return {};
  return others == 1 ? "; ending the other rank" : fmt::format("; ending the other {} ranks", others);
}

unsigned Job::living() const noexcept { return asked_ - ended_; }

void Job::on_abort(int rank, int status, const std::string& text) {
  const RankName name{rank, ranks_.at(static_cast<std::size_t>(rank)).pid, plan_.host};
  const int shown = status & 0xff;
  fail(shown == 0 ? kLauncherFailed : shown,
       fmt::format("{} aborted the job with status {}{}{}", to_string(name), status, text.empty() ? "" : ": ", text),
       SIGTERM);
}

void Job::on_signal(int signo) {
  if (ends_the_job(signo)) {
    by_hand_ = true;
    if (phase_ == Phase::ending) return empty();  // asked twice: no more grace
    return fail(128 + signo, fmt::format("received {}: ending {}", signal_name(signo), count_of_ranks(living())),
                signo);
  }
  if (!warden_lost_) (void)warden_.signal(warden::kEveryRank, signo);
  if (signo == SIGTSTP) ::kill(::getpid(), SIGSTOP);
  if (signo == SIGCONT && input_) input_->look_again();
}

/// The first failure is said and decides the status; what follows from it is not news.
void Job::fail(int status, const std::string& message, int signo) {
  if (phase_ != Phase::running) return;
  status_ = status;
  say(message);
  silence_libraries();
  end_with(signo);
}

/// libpmix complains on stderr about every client that goes while it is being ended; our own lines have another
/// descriptor.
void Job::silence_libraries() {
  std::fflush(stderr);
  const Fd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  if (null) ::dup2(null.get(), 2);
}

void Job::end_with(int signo) {
  phase_ = Phase::ending;
  timeout_ = {};
  decision_ = {};
  if (warden_lost_) return;
  (void)warden_.signal(warden::kEveryRank, signo);
  (void)warden_.signal(warden::kEveryRank, SIGCONT);  // a stopped process must wake up to die in order
  grace_ = loop_.after(plan_.options.grace, [this] { empty(); });
}

/// Kills whatever is left of the job: nothing after a normal end, unless a rank left processes of its own behind.
void Job::empty() {
  if (phase_ == Phase::emptying || phase_ == Phase::done) return;
  phase_ = Phase::emptying;
  timeout_ = {};
  grace_ = loop_.after(kLongestEmptying, [this] {
    say("some processes of the job do not die, even of SIGKILL; giving up");
    emptied();
  });
  if (!warden_lost_) (void)warden_.kill_all();
}

void Job::emptied() {
  phase_ = Phase::done;
  grace_ = {};
  orphans_ = {};
  observer_.on_emptied();
  output_.drain();
  loop_.stop();
}

/// The kernel kills the ranks with it (PR_SET_PDEATHSIG); everything else below it becomes our child.
void Job::warden_died() {
  if (warden_lost_) return;
  warden_lost_ = true;
  reports_ = {};
  fail(128 + SIGKILL,
       fmt::format("the process that looks after the ranks (opal-warden, pid {}) died; ending the job", warden_.pid()),
       SIGKILL);
  empty();
  kill_orphans();
}

void Job::kill_orphans() {
  warden::kill_children();
  if (!warden::reap_children([](pid_t, int) {})) return emptied();
  orphans_ = loop_.after(kOrphanRound, [this] { kill_orphans(); });
}

}  // namespace runtime::launch
