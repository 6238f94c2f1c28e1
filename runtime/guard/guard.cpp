// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard/guard.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "opal/core/clock.hpp"
#include "opal/core/system/mapping.hpp"
#include "runtime/guard/processes.hpp"
#include "runtime/packing.hpp"

namespace runtime::guard {
namespace {

constexpr int kKillAgainMs = 10;  // until the next SIGKILL: a fork during one leaves a child that it has missed

class Guard {
 public:
  explicit Guard(const Duty& duty) : duty_(duty) {
    sigset_t mask;
    sigfillset(&mask);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);  // only SIGKILL ends a process guard
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    child_ended_.reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void run() {
    while (!done_) {
      pollfd events[] = {{duty_.socket, POLLIN, 0}, {child_ended_.get(), POLLIN, 0}};
      ::poll(events, 2, killing_ ? kKillAgainMs : launcher_gone_ ? -1 : heard_.poll_timeout_ms());
      signalfd_siginfo discarded;
      while (::read(child_ended_.get(), &discarded, sizeof discarded) > 0) continue;
      // Requests first: their answers precede the report of an end that is seen now.
      if (events[0].revents != 0) handle_request();
      if (!launcher_gone_ && heard_.expired()) doubt();
      reap();
      if (killing_) kill_children();
    }
  }

 private:
  void handle_request() {
    Request request{};
    auto received = receive_message(duty_.socket, std::as_writable_bytes(std::span{&request, 1}));
    if (!received || (received->has_value() && (*received)->size == 0)) return launcher_died();
    if (!received->has_value()) return;
    heard_ = timeout();
    doubted_ = false;
    switch (request.kind) {
      case Request::Kind::spawn: return spawn(request.rank, (*received)->fds);
      case Request::Kind::signal: return signal(request.rank, request.signal);
      case Request::Kind::kill_all: killing_ = true; return;
      case Request::Kind::alive: return;
      case Request::Kind::quit: done_ = true; return;
    }
  }

  void spawn(std::int32_t rank, const std::vector<Fd>& fds) {
    const Started started = start(fds);
    if (started.failure) {
      return report({Report::Kind::refused, rank, 0, started.failure->os_errno, started.failure->step});
    }
    ranks_.emplace(started.pid, rank);
    report({Report::Kind::started, rank, started.pid, 0, {}});
  }

  Started start(const std::vector<Fd>& fds) {
    if (fds.size() != 4) return {0, StartFailure{Step::plan, EPROTO}};
    struct stat about {};
    if (::fstat(fds[0].get(), &about) != 0) return {0, StartFailure{Step::plan, errno}};
    auto bytes = opal::Mapping::shared(fds[0].get(), static_cast<std::size_t>(about.st_size), 0, false);
    if (!bytes) return {0, StartFailure{Step::plan, bytes.error().os_errno}};
    const auto plan = unpack<SpawnPlan>(bytes->bytes());
    if (!plan) return {0, StartFailure{Step::plan, EPROTO}};
    return start_rank(*plan, {fds[1].get(), fds[2].get(), fds[3].get()}, duty_.ignored);
  }

  void signal(std::int32_t rank, std::int32_t signo) {
    for (const auto& [pid, owner] : ranks_) {
      if (rank == kEveryRank || rank == owner) ::kill(-pid, signo);
    }
  }

  void reap() {
    const bool any_left = reap_children([this](pid_t pid, int status) {
      const auto rank = ranks_.find(pid);
      if (rank == ranks_.end()) return;  // an orphan of some rank
      report({Report::Kind::exited, rank->second, pid, status, {}});
      ranks_.erase(rank);
    });
    if (!killing_ || any_left) return;
    killing_ = false;
    if (!launcher_gone_) return report({Report::Kind::empty, kEveryRank, 0, 0, {}});
    // No process of the job is left that could write into the directory.
    std::error_code ignored;
    if (!duty_.session_directory.empty()) std::filesystem::remove_all(duty_.session_directory, ignored);
    done_ = true;
  }

  void report(const Report& report) {
    if (launcher_gone_) return;
    if (!send_message(duty_.socket, opal::bytes_of(report))) launcher_died();
  }

  [[nodiscard]] opal::Deadline timeout() const {
    return opal::Deadline::after(std::chrono::milliseconds{duty_.timeout_ms});
  }

  /// The timeout has passed without a request.  The whole machine may have been suspended, so the launcher gets a
  /// quarter of the timeout more before it counts as stopped.
  void doubt() {
    if (std::exchange(doubted_, true)) return launcher_stopped();
    heard_ = opal::Deadline::after(std::chrono::milliseconds{duty_.timeout_ms / 4});
  }

  /// Kills a launcher that is stopped (SIGSTOP), since it cannot request the end of the job.
  void launcher_stopped() {
    ::kill(::getppid(), SIGKILL);
    launcher_died();
  }

  void launcher_died() {
    launcher_gone_ = true;
    killing_ = true;
    duty_.socket = -1;  // poll ignores it from now on
  }

  Duty duty_;
  Fd child_ended_;
  std::map<pid_t, std::int32_t> ranks_;  // the living ones
  opal::Deadline heard_ = timeout();     // a request must have come by then
  bool doubted_ = false;                 // heard_ was extended once without a request
  bool killing_ = false;
  bool launcher_gone_ = false;
  bool done_ = false;
};

}  // namespace

void serve(const Duty& duty) { Guard{duty}.run(); }

}  // namespace runtime::guard
