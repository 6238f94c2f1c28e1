// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/remote_host.hpp — a host of the job that has a daemon of its own, as the launcher sees it: RankHost by
// messages.  Knows three states: its agent runs and the daemon is awaited, joined, or lost.
// Threads: the loop's thread.
#pragma once
#include <memory>
#include <optional>

#include "runtime/daemon/agent.hpp"
#include "runtime/daemon/messages.hpp"
#include "runtime/launch/rank_host.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::daemon {

class RemoteHost final : public launch::RankHost {
 public:
  using OnLost = std::function<void(int status, const std::string& why)>;
  /// `patience`: how long it may take to join, and later to answer.
  RemoteHost(event::Loop& loop, oob::Daemon& oob, std::string name, std::chrono::milliseconds patience,
             stdio::Output& output, launch::RankHostObserver observer, OnLost on_lost);

  /// Starts the daemon; a failure is reported as the loss of the host.
  void start_daemon(std::vector<std::string> command, const std::string& bootstrap);
  /// What to send when it has joined, and its ranks.
  void set_launch(Launch launch, std::vector<std::uint32_t> ranks);
  /// Its ranks have taken so many bytes of the launcher's stdin, which is sent as Input.
  std::function<void(std::uint64_t bytes)> on_input_taken = [](std::uint64_t) {};
  void joined(opal::am::Endpoint& endpoint, std::uint64_t pid);
  /// A message of its daemon that is about its ranks; false when it is not.  Garbled ones lose the host.
  bool handle(Kind kind, ByteSpan content);
  void lost(int status, const std::string& why);
  /// Credits that were held back while the output was full.
  void give_credit();
  void quit();
  /// The agent or the daemon may still be there.
  [[nodiscard]] bool gone() const noexcept { return !agent_ || !agent_->running(); }
  void kill_agent() noexcept { agent_.reset(); }
  [[nodiscard]] opal::am::Endpoint* endpoint() const noexcept { return endpoint_; }

  /// Before the daemon has joined, the message waits until it has its ranks: those of other hosts may run and ask
  /// them already.
  template <class M>
  void send(const M& message) {
    transmit(topic(M::kKind), pack(message));
  }

  /// The connection has ended.
  void disconnected(const Error& why) { lost_now(opal::to_string(why)); }

  /// Calls `use` with the message; a garbled one loses the host.
  template <class M, class Use>
  void with(ByteSpan content, Use use) {
    auto message = unpack<M>(content);
    if (!message) return post_lost("it sent a garbled message");
    use(*message);
  }

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const noexcept override { return ranks_; }
  void start() override;
  void signal(int signo, bool ends_the_job) override;
  void kill_all() override;
  void announce_death(unsigned rank) override { send(Death{rank}); }
  [[nodiscard]] std::size_t starting() const noexcept override { return 0; }  // its daemon knows
  [[nodiscard]] bool has_dying_rank() const override { return false; }

 private:
  void transmit(oob::Topic topic, std::string content);
  void agent_ended(int wait_status);
  void post_lost(const std::string& why);
  void lost_now(const std::string& why);
  void ping();
  event::Loop& loop_;
  oob::Daemon& oob_;
  const std::string name_;
  const std::chrono::milliseconds patience_;
  stdio::Output& output_;
  const launch::RankHostObserver observer_;
  const OnLost on_lost_;
  std::vector<std::string> command_;
  std::unique_ptr<Agent> agent_;
  opal::am::Endpoint* endpoint_ = nullptr;
  std::uint64_t pid_ = 0;
  std::optional<Launch> launch_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::pair<oob::Topic, std::string>> early_;  // messages that wait
  bool wanted_ = false;                                    // start() was called
  bool lost_ = false;
  bool quitting_ = false;
  std::uint64_t credit_ = 0;
  unsigned silent_ = 0;  // pings without an answer
  event::Timer timer_;
};

}  // namespace runtime::daemon
