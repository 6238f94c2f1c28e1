// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/host/messages.hpp"

namespace runtime::launch {
namespace {

constexpr std::chrono::milliseconds kLongestEmptying{10'000};  // a process stuck in the kernel ignores SIGKILL
constexpr std::chrono::milliseconds kReaderTimeout{5'000};
// Waiting for a dying rank to be gone, or a host to answer or be lost: longer than it takes to lose one that crashed.
constexpr std::chrono::milliseconds kLongestDecision{5'000};
// Others may be about to fail for the same reason, or to end with what they still have to print; and a rank killed on
// another host may be the cause and not yet reported.
constexpr std::chrono::milliseconds kOthersEnd{250};
constexpr std::chrono::milliseconds kStopRound{5};
constexpr std::chrono::milliseconds kLongestStop{1'000};  // a daemon that does not answer holds up a stop
constexpr int kTimeoutStatus = 124;
constexpr int kLauncherFailed = 1;

bool ends_the_job(int signo) { return signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT; }

}  // namespace

Job::Job(event::Loop& loop, std::string name, unsigned ranks, Options options, std::function<void()> on_emptied)
    : loop_(loop),
      name_(std::move(name)),
      options_(std::move(options)),
      on_emptied_(std::move(on_emptied)),
      own_stderr_(::fcntl(2, F_DUPFD_CLOEXEC, 3)),
      output_(loop,
              {.tag = options_.tag_output,
               .timestamp = options_.timestamp_output,
               .merge = options_.merge_stderr,
               .directory = options_.output_directory,
               .ranks = ranks,
               .whole = ranks > 1,
               .err_fd = own_stderr_.get()},
              [this](const std::string& why) { fail(kLauncherFailed, why + what_follows(), SIGTERM); }),
      ranks_(ranks) {
  if (options_.timeout) {
    timeout_ = loop_.after(*options_.timeout, [this] {
      by_hand_ = true;
      fail(kTimeoutStatus,
           fmt::format("the job did not end within --timeout {} s; ending {}",
                       static_cast<double>(options_.timeout->count()) / 1000, count_of_ranks(living())),
           SIGTERM);
    });
  }
}

RankHostObserver Job::observer_of(std::size_t host) {
  return [this, host](const Report& report) { std::visit([&](const auto& news) { on(host, news); }, report); };
}

/// The ranks of the host count as ended.
void Job::on(std::size_t host, const Trouble& trouble) {
  for (const unsigned rank : hosts_[host].host->ranks()) {
    if (note_end(rank) && continues()) announce_death(rank);
  }
  if (continues()) return go_on_without(trouble.status, trouble.why);
  fail(trouble.status, trouble.why, SIGKILL);
  empty();
}

int Job::run() {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    for (const unsigned rank : hosts_[host].host->ranks()) ranks_.at(rank).host = host;
  }
  for (const std::string& warning : options_.warnings) say(warning);
  for (const Host& host : hosts_) {
    if (phase_ == Phase::running) host.host->start();
  }
  loop_.run();
  const std::chrono::milliseconds timeout = by_hand_ ? kReaderTimeout : std::chrono::milliseconds{0};
  output_.finish(timeout);
  // What was written last; the writers have ended.
  if (const std::string lost = output_.problem(); !lost.empty() && status_ == 0) {
    status_ = kLauncherFailed;
    const std::string line = fmt::format("{}: {}\n", name_, lost);
    (void)!::write(own_stderr_.get(), line.data(), line.size());
  }
  return status_;
}

void Job::say(const std::string& text) { output_.say(fmt::format("{}: {}", name_, text)); }

std::string Job::name_of(unsigned rank) const {
  const Rank& known = ranks_.at(rank);
  return fmt::format("rank {} (pid {} on host {})", rank, known.pid, hosts_[known.host].host->name());
}

void Job::on(std::size_t /*host*/, const Started& started) {
  if (started.rank < ranks_.size()) ranks_[started.rank].pid = started.pid;
}

/// False when the rank's end was known already.
bool Job::note_end(unsigned rank) {
  if (rank >= ranks_.size() || ranks_[rank].ended) return false;
  ranks_[rank].ended = true;
  ++ended_;
  on_ended(rank);
  return true;
}

void Job::on(std::size_t /*host*/, const Refused& refused) {
  if (!note_end(refused.rank)) return;
  fail(refused.status, refused.why, SIGTERM);
  if (living() == 0) empty();
}

void Job::on(std::size_t /*host*/, const Exited& exited) {
  const auto& [rank, wait_status, left_properly] = exited;
  if (!note_end(rank)) return;
  const Failure end{rank, wait_status, left_properly};
  const bool failed = wait_status != 0 || !left_properly;
  if (failed && continues()) announce_death(rank);
  if (failed && continues()) return go_on_without(status_of(end), describe(end));
  if (failed && !has_aborted(rank)) failures_.push_back(end);
  decide();
  if (ended_ == ranks_.size() || (phase_ != Phase::running && living() == 0)) empty();
}

/// The likelihood that a failure is the cause of the others.  A signal is likeliest: the launcher kills ranks only
/// after its decision.  An abort is least likely: most ranks abort because a peer has failed.
int Job::Failure::weight() const noexcept {
  if (abort) return 0;
  return WIFSIGNALED(wait_status) ? 3 : wait_status != 0 ? 2 : 1;
}

/// Decides which failure ends the job.  The death of a rank often makes others fail, whose ends may be reported first.
///  - While a rank is dying, or a host has not answered inquire(), the cause may be unknown: wait at most
///    kLongestDecision.
///  - After a rank that exited with a status, give the others time to end by themselves: the grace period if that rank
///    had left the job (it is not needed), else kOthersEnd.
void Job::decide() {
  if (phase_ != Phase::running || failures_.empty()) return;
  const Failure cause =
      *std::ranges::max_element(failures_, [&](const Failure& a, const Failure& b) { return a.weight() < b.weight(); });
  const bool killed = WIFSIGNALED(cause.wait_status);
  if (!killed) inquire();
  const bool dying = cause_may_come();
  const bool aborted = std::ranges::any_of(failures_, [](const Failure& failure) { return failure.abort.has_value(); });
  const bool by_itself = !killed && !aborted && living() != 0;
  if (!decision_overdue_ && (dying || by_itself)) {
    if (!decision_ || (dying && !decision_awaits_dying_)) {
      decision_awaits_dying_ = dying;
      const auto timeout = dying ? kLongestDecision : cause.left_properly ? options_.grace : kOthersEnd;
      decision_ = loop_.after(timeout, [this] {
        decision_overdue_ = true;
        decide();
      });
    }
    return;
  }
  decision_ = {};
  if (!cause.abort) announce_death(cause.rank);
  fail(status_of(cause), describe(cause) + silent_hosts() + (cause.abort ? "" : what_follows()), SIGTERM);
}

/// A rank of this host is dying, for another reason than that it has aborted the job, or another host owes an answer.
/// When all ranks have ended, all causes are known.
bool Job::cause_may_come() const {
  if (ended_ == ranks_.size()) return false;
  return std::ranges::any_of(hosts_, [this](const Host& host) {
    if (host.host->owes_answer()) return true;
    const std::vector<std::uint32_t> dying = host.host->dying_ranks();
    return !std::ranges::all_of(dying, [this](std::uint32_t rank) { return has_aborted(rank); });
  });
}

/// Sends Inquire to all hosts, once: they may know of ends that caused the first failure reported here.
void Job::inquire() {
  if (std::exchange(inquired_, true)) return;
  for (const Host& host : hosts_) {
    if (!host.lost) host.host->inquire();
  }
}

/// A text that names the hosts that owe an answer.
std::string Job::silent_hosts() const {
  std::string text;
  for (const Host& host : hosts_) {
    if (host.host->owes_answer()) text += fmt::format("; host {} does not answer", host.host->name());
  }
  return text;
}

bool Job::has_aborted(unsigned rank) const noexcept {
  return std::ranges::any_of(failures_, [&](const Failure& failure) { return failure.rank == rank && failure.abort; });
}

int Job::status_of(const Failure& failure) noexcept {
  if (failure.abort) {
    const int shown = failure.abort->status & 0xff;
    return shown == 0 ? kLauncherFailed : shown;
  }
  return failure.wait_status == 0 ? kLauncherFailed : exit_status_of(failure.wait_status);
}

std::string Job::describe(const Failure& failure) const {
  if (const auto& abort = failure.abort) {
    return fmt::format("{} aborted the job with status {}{}{}", name_of(failure.rank), abort->status,
                       abort->text.empty() ? "" : ": ", abort->text);
  }
  return fmt::format("{} {}", name_of(failure.rank),
                     failure.wait_status == 0
                         ? "exited with status 0 without leaving the job (MPI_Finalize or the like)"
                         : describe_end(failure.wait_status));
}

void Job::announce_death(unsigned rank) {
  for (const Host& host : hosts_) {
    if (!host.lost) host.host->announce_death(rank);
  }
}

bool Job::continues() const noexcept { return options_.continuous && phase_ == Phase::running; }

/// The first failure decides the status of a continuous job, too.
void Job::go_on_without(int status, const std::string& what) {
  if (status_ == 0) status_ = status;
  const unsigned others = living();
  say(others == 0 ? what : fmt::format("{}; {} {} on", what, count_of_ranks(others), others == 1 ? "goes" : "go"));
  if (ended_ == ranks_.size()) empty();
}

std::string Job::what_follows() const {
  const unsigned others = living();
  if (others == 0) return {};
  return others == 1 ? "; ending the other rank" : fmt::format("; ending the other {} ranks", others);
}

/// Ranks that run or are just being started.
unsigned Job::living() const noexcept {
  std::size_t count = std::ranges::count_if(ranks_, [](const Rank& rank) { return rank.pid != 0 && !rank.ended; });
  for (const Host& host : hosts_) count += host.host->starting();
  return static_cast<unsigned>(count);
}

void Job::on(std::size_t /*host*/, const Abort& abort) {
  if (abort.rank >= ranks_.size() || has_aborted(abort.rank)) return;
  failures_.push_back({abort.rank, 0, false, abort});
  decide();
}

void Job::on_signal(int signo) {
  if (ends_the_job(signo)) {
    by_hand_ = true;
    if (phase_ == Phase::ending) return empty();  // asked twice: no more grace
    return fail(128 + signo, fmt::format("received {}: ending {}", signal_name(signo), count_of_ranks(living())),
                signo);
  }
  signal_all(signo, false);
  if (signo == SIGTSTP) stop(opal::Deadline::after(kLongestStop));
  if (signo != SIGCONT) return;
  stop_ = {};
  on_continued();
}

/// Stops the launcher when the daemons have the signal before it, but at `deadline` at the latest.
void Job::stop(opal::Deadline deadline) {
  if (may_stop() || deadline.expired()) {
    ::kill(::getpid(), SIGSTOP);
    return;
  }
  stop_ = loop_.after(kStopRound, [this, deadline] { stop(deadline); });
}

void Job::signal_all(int signo, bool ends_the_job) {
  for (const Host& host : hosts_) {
    if (!host.lost) host.host->signal(signo, ends_the_job);
  }
}

void Job::on_lost(std::size_t index, int status, const std::string& why) {
  Host& host = hosts_.at(index);
  if (host.lost) return;
  host.lost = true;
  if (phase_ == Phase::done || (host.empty && phase_ == Phase::emptying)) return;
  for (const unsigned rank : host.host->ranks()) note_end(rank);
  if (continues()) {
    on(index, Emptied{});
    return go_on_without(status, why);
  }
  const unsigned others = living();
  fail(status, others == 0 ? why : fmt::format("{}; ending the other {}", why, count_of_ranks(others)), SIGTERM);
  on(index, Emptied{});
  if (living() == 0) empty();
}

/// Ends the job: prints `message`, sets the exit status, sends `signo`.  Does nothing if the job is ending.
void Job::fail(int status, const std::string& message, int signo) {
  if (phase_ != Phase::running) return;
  status_ = status;
  say(message);
  silence_libraries();
  end_with(signo);
}

/// Redirects descriptor 2 to /dev/null: libpmix prints a message for every client that ends now.  The launcher's own
/// lines go to own_stderr_.
void Job::silence_libraries() {
  std::fflush(stderr);
  const Fd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  if (null) ::dup2(null.get(), 2);
}

void Job::end_with(int signo) {
  phase_ = Phase::ending;
  stop_ = {};
  timeout_ = {};
  decision_ = {};
  signal_all(signo, true);
  signal_all(SIGCONT, true);  // a stopped process must wake up to die in order
  grace_ = loop_.after(options_.grace, [this] { empty(); });
}

/// Kills all processes of the job that are left.  After a normal end these are only processes that ranks left behind.
void Job::empty() {
  if (phase_ == Phase::emptying || phase_ == Phase::done) return;
  phase_ = Phase::emptying;
  timeout_ = {};
  grace_ = loop_.after(kLongestEmptying, [this] {
    say("some processes of the job do not die, even of SIGKILL; giving up");
    emptied();
  });
  for (const Host& host : hosts_) {
    if (!host.empty) host.host->kill_all();
  }
}

void Job::on(std::size_t host, const Emptied& /*emptied*/) {
  hosts_[host].empty = true;
  if (std::ranges::any_of(hosts_, [](const Host& other) { return !other.empty; })) return;
  // Posted: the last one may report from inside of kill_all().
  loop_.post([this] {
    if (phase_ == Phase::emptying) emptied();
  });
}

void Job::emptied() {
  phase_ = Phase::done;
  grace_ = {};
  on_emptied_();
  output_.drain();
  loop_.stop();
}

}  // namespace runtime::launch
