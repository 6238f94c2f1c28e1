// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/remote_host.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/launch/messages.hpp"

namespace runtime::daemon {
namespace {

constexpr unsigned kPingsPerPatience = 4;
constexpr int kHostLost = 1;

}  // namespace

RemoteHost::RemoteHost(event::Loop& loop, oob::Daemon& oob, std::string name, std::chrono::milliseconds patience,
                       stdio::Output& output, launch::RankHostObserver observer, OnLost on_lost)
    : loop_(loop),
      oob_(oob),
      name_(std::move(name)),
      patience_(patience),
      output_(output),
      observer_(std::move(observer)),
      on_lost_(std::move(on_lost)) {}

void RemoteHost::start_daemon(std::vector<std::string> command, const std::string& bootstrap) {
  command_ = std::move(command);
  auto agent = Agent::start(loop_, command_, bootstrap, [this](int status) { agent_ended(status); });
  if (!agent) {
    return loop_.post([this, why = opal::to_string(agent.error())] {
      lost(kHostLost, fmt::format("cannot start a daemon on host {}: {}: {}", name_, to_string(command_), why));
    });
  }
  agent_ = std::move(*agent);
  timer_ = loop_.after(patience_, [this] {
    lost(kHostLost, fmt::format("the daemon of host {} did not come within {} s; it was started by: {}", name_,
                                static_cast<double>(patience_.count()) / 1000, to_string(command_)));
  });
}

void RemoteHost::set_launch(Launch launch, std::vector<std::uint32_t> ranks) {
  launch_ = std::move(launch);
  ranks_ = std::move(ranks);
}

void RemoteHost::transmit(oob::Topic topic, std::string content) {
  if (endpoint_ == nullptr) {
    if (!lost_ && !quitting_) early_.emplace_back(topic, std::move(content));
    return;
  }
  if (const auto sent = oob_.send(*endpoint_, topic, oob::as_bytes(content)); !sent) {
    post_lost(opal::to_string(sent.error()));
  }
}

void RemoteHost::joined(opal::am::Endpoint& endpoint, std::uint64_t pid) {
  if (lost_ || endpoint_ != nullptr) return;
  endpoint_ = &endpoint;
  pid_ = pid;
  ping();
  if (wanted_) start();
}

void RemoteHost::agent_ended(int wait_status) {
  if (endpoint_ != nullptr || quitting_) return;  // the daemon goes on, or not, by itself
  lost(kHostLost, fmt::format("cannot start a daemon on host {}: \"{}\" {}", name_, to_string(command_),
                              launch::describe_end(wait_status)));
}

/// From inside of calls of the job: it hears of it afterwards.
void RemoteHost::post_lost(const std::string& why) {
  loop_.post([this, why] { lost_now(why); });
}

void RemoteHost::lost_now(const std::string& why) {
  lost(kHostLost, fmt::format("the daemon of host {} (opald, pid {}) is lost: {}", name_, pid_, why));
}

void RemoteHost::lost(int status, const std::string& why) {
  if (lost_ || quitting_) return;
  lost_ = true;
  early_.clear();
  endpoint_ = nullptr;
  timer_ = {};
  agent_.reset();
  on_lost_(status, why);
}

void RemoteHost::ping() {
  if (silent_ == kPingsPerPatience) {
    return lost(kHostLost, fmt::format("the daemon of host {} (opald, pid {}) has not answered for {} s", name_, pid_,
                                       static_cast<double>(patience_.count()) / 1000));
  }
  ++silent_;
  send(Ping{});
  timer_ = loop_.after(patience_ / kPingsPerPatience, [this] { ping(); });
}

void RemoteHost::start() {
  wanted_ = true;
  if (endpoint_ == nullptr || !launch_) return;
  send(*launch_);
  for (auto& [topic, content] : std::exchange(early_, {})) transmit(topic, std::move(content));
}

void RemoteHost::signal(int signo, bool ends_the_job) {
  if (ends_the_job) wanted_ = false;
  send(Signal{signo, static_cast<std::uint8_t>(ends_the_job)});
}

void RemoteHost::kill_all() {
  if (endpoint_ != nullptr) return send(KillAll{});
  agent_.reset();  // the daemon that it may have started finds nobody and ends
  if (!lost_) loop_.post([this] { observer_.on_empty(); });
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
  silent_ = 0;
  switch (kind) {
    case Kind::pong: return true;
    case Kind::started:
      with<Started>(content, [&](const Started& m) { observer_.on_started(m.rank, static_cast<pid_t>(m.pid)); });
      return true;
    case Kind::refused:
      with<Refused>(content, [&](const Refused& m) {
        observer_.on_refused(m.rank, static_cast<int>(m.status), fmt::format("{} (on host {})", m.text, name_));
      });
      return true;
    case Kind::exited:
      with<Exited>(content, [&](const Exited& m) {
        observer_.on_exited(m.rank, static_cast<int>(m.wait_status), m.left_properly != 0);
      });
      return true;
    case Kind::trouble:
      with<Trouble>(content, [&](const Trouble& m) {
        observer_.on_trouble(static_cast<int>(m.status), fmt::format("host {}: {}", name_, m.text));
      });
      return true;
    case Kind::output:
      with<Output>(content, [&](const Output& m) {
        const auto channel = m.channel == 0 ? stdio::Channel::out : stdio::Channel::err;
        output_.feed(static_cast<int>(m.rank), channel, m.text);
        credit_ += m.text.size();
        give_credit();
      });
      return true;
    case Kind::output_end:
      with<OutputEnd>(content, [&](const OutputEnd& m) {
        output_.feed_end(static_cast<int>(m.rank), m.channel == 0 ? stdio::Channel::out : stdio::Channel::err);
      });
      return true;
    case Kind::input_taken:
      with<InputTaken>(content, [&](const InputTaken& m) { on_input_taken(m.bytes); });
      return true;
    case Kind::empty: observer_.on_empty(); return true;
    default: return false;
  }
}

}  // namespace runtime::daemon
