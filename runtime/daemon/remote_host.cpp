// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/remote_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/host/messages.hpp"

namespace runtime::daemon {
namespace {

constexpr int kHostLost = 1;

}  // namespace

RemoteHost::RemoteHost(event::Loop& loop, std::string name, const Timeouts& timeouts, stdio::Output& output,
                       launch::RankHostObserver observer, Hooks hooks)
    : loop_(loop),
      name_(std::move(name)),
      timeouts_(timeouts),
      output_(output),
      observer_(std::move(observer)),
      hooks_(std::move(hooks)) {}

void RemoteHost::start_daemon(std::vector<std::string> command, const std::string& bootstrap) {
  settling_ = true;
  command_ = std::move(command);
  auto agent = Agent::start(loop_, command_, bootstrap, [this](int status) { agent_ended(status); });
  if (!agent) {
    return loop_.post([this, why = opal::to_string(agent.error())] {
      lost(kHostLost, fmt::format("cannot start a daemon on host {}: {}: {}", name_, to_string(command_), why));
    });
  }
  agent_ = std::move(*agent);
  timer_ = loop_.after(timeouts_.start, [this] {
    lost(kHostLost, fmt::format("the daemon of host {} did not come within {} s; it was started by: {}", name_,
                                seconds(timeouts_.start), to_string(command_)));
  });
}

void RemoteHost::set_launch(const Launch& launch, std::vector<std::uint32_t> ranks) {
  launch_ = pack(launch);
  ranks_ = std::move(ranks);
}

void RemoteHost::transmit(Kind kind, std::string content) {
  if (lost_) return;
  if (const auto sent = hooks_.send(kind, std::move(content)); !sent) post_lost(opal::to_string(sent.error()));
}

void RemoteHost::agent_ended(int wait_status) {
  if (here_ || quitting_) return;  // the tree watches the daemon, which may run without its agent
  // Until then the tree would notice the end of the daemon only when the time for its place is over.
  const std::string agent = fmt::format("\"{}\" {}", to_string(command_), launch::describe_end(wait_status));
  lost(kHostLost, settling_ ? fmt::format("cannot start a daemon on host {}: {}", name_, agent)
                            : fmt::format("{} is lost: its launch agent has ended: {}", daemon(), agent));
}

std::string RemoteHost::daemon() const { return fmt::format("the daemon of host {} (opald, pid {})", name_, pid_); }

/// Calls lost() from the loop, since the caller may be inside a call of Job.
void RemoteHost::post_lost(const std::string& why) {
  loop_.post([this, why] { lost(kHostLost, fmt::format("{} is lost: {}", daemon(), why)); });
}

void RemoteHost::lost(overlay::Loss how) {
  switch (how) {
    case overlay::Loss::silent:
      return lost(kHostLost, fmt::format("{} has not answered for {} s", daemon(), seconds(timeouts_.silence)));
    case overlay::Loss::absent:
      return lost(kHostLost, fmt::format("{} has not found its place in the tree of daemons within {} s", daemon(),
                                         seconds(timeouts_.place())));
    default: return lost(kHostLost, fmt::format("{} is lost: its connection has ended", daemon()));
  }
}

void RemoteHost::lost(int status, const std::string& why) {
  if (lost_ || quitting_) return;
  lost_ = true;
  timer_ = {};
  agent_.reset();
  settle();
  hooks_.expel();
  hooks_.on_lost(status, why);
}

void RemoteHost::start() { transmit(kKind<Launch>, std::move(launch_)); }

void RemoteHost::signal(int signo, bool ends_the_job) { send(Signal{signo, ends_the_job}); }

/// Asks for the ends of ranks that the daemon knows of.  A host without a daemon has no ranks.
void RemoteHost::inquire() {
  if (!here_ || lost_) return;
  asked_ = true;
  send(Inquire{});
}

void RemoteHost::kill_all() {
  if (here_) return send(KillAll{});
  // Hub::join() refuses a daemon that joins later.
  lost_ = true;
  timer_ = {};
  agent_.reset();
  hooks_.expel();
  loop_.post([this] { observer_(launch::Emptied{}); });
}

void RemoteHost::give_credit() {
  if (credit_ == 0 || output_.full()) return;
  send(Credit{credit_});
  credit_ = 0;
}

void RemoteHost::quit() {
  quitting_ = true;
  timer_ = {};
  send(Quit{});
}

bool RemoteHost::handle(Kind kind, ByteSpan content) {
  here_ = true;
  switch (kind) {
    case kKind<Ready>: return true;
    case kKind<launch::Report>:
      with<launch::Report>(content, [&](const launch::Report& m) { take_report(m); });
      return true;
    case kKind<Output>:
      with<Output>(content, [&](const Output& m) {
        if (!owns(m.rank)) return;
        const auto channel = m.to_stderr ? stdio::Channel::err : stdio::Channel::out;
        if (m.text.empty()) return output_.feed_end(static_cast<int>(m.rank), channel);
        if (!output_.feed(static_cast<int>(m.rank), channel, m.text)) send(Unread{m.rank, m.to_stderr});
        credit_ += m.text.size();
        give_credit();
      });
      return true;
    case kKind<InputTaken>:
      with<InputTaken>(content, [&](const InputTaken& m) { on_input_taken(m.bytes); });
      return true;
    default: return false;
  }
}

void RemoteHost::take_report(launch::Report report) {
  const auto is_ours = [this](const auto& about) {
    if constexpr (requires { about.rank; }) return owns(about.rank);
    return true;
  };
  if (!std::visit(is_ours, report)) return;
  if (auto* const refused = std::get_if<launch::Refused>(&report)) refused->why += fmt::format(" (on host {})", name_);
  if (auto* const trouble = std::get_if<launch::Trouble>(&report)) {
    trouble->why = fmt::format("host {}: {}", name_, trouble->why);
  }
  if (std::holds_alternative<launch::Answered>(report)) asked_ = false;
  observer_(report);
}

/// True when `rank` is on this host.  Otherwise the daemon has broken the protocol, and the host becomes lost.
bool RemoteHost::owns(std::uint32_t rank) {
  const bool ours = std::ranges::binary_search(ranks_, rank);
  if (!ours) post_lost(fmt::format("it sent a message of rank {}, which is not there", rank));
  return ours;
}

}  // namespace runtime::daemon
