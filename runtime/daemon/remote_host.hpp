// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/remote_host.hpp — a host of the job that has a daemon of its own, as the launcher sees it: RankHost by
// messages.  Knows three states: its agent runs and the daemon is awaited, here, or lost.
// Threads: the loop's thread.
#pragma once
#include <memory>
#include <utility>

#include "runtime/daemon/agent.hpp"
#include "runtime/daemon/tree/messages.hpp"
#include "runtime/overlay/wire.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::daemon {

class RemoteHost final : public launch::RankHost {
 public:
  struct Hooks {
    /// Sends a message to its daemon, as soon as that has come.
    std::function<Result<void>(Kind kind, std::string content)> send;
    std::function<void(int status, const std::string& why)> on_lost;
    std::function<void()> expel;       ///< from the tree of daemons
    std::function<void()> on_settled;  ///< once: the daemon that was started has come, or will not
  };
  RemoteHost(event::Loop& loop, std::string name, const Timeouts& timeouts, stdio::Output& output,
             launch::RankHostObserver observer, Hooks hooks);

  /// Starts the daemon; a failure is reported as the loss of the host.
  void start_daemon(std::vector<std::string> command, const std::string& bootstrap);
  /// What to send it at the start, and its ranks.
  void set_launch(const Launch& launch, std::vector<std::uint32_t> ranks);
  /// Its ranks have taken so many bytes of the launcher's stdin, which is sent as Input.
  std::function<void(std::uint64_t bytes)> on_input_taken = [](std::uint64_t) {};
  /// It has asked for its place in the tree.  From now on the tree says whether it is lost: it may have to wait for
  /// those above it to come, or to be given up, before it gets its place.
  void joined(pid_t pid) {
    pid_ = pid;
    timer_ = {};
    settle();
  }
  /// A message of its daemon that is about its ranks; false when it is not.  Garbled ones lose the host.
  bool handle(Kind kind, ByteSpan content);
  void lost(int status, const std::string& why);
  /// The tree has lost its daemon.
  void lost(overlay::Loss how);
  [[nodiscard]] bool is_lost() const noexcept { return lost_; }
  /// Credits that were held back while the output was full.
  void give_credit();
  void quit();
  /// Neither the agent nor the daemon is there any more.
  [[nodiscard]] bool gone() const noexcept { return !agent_ || !agent_->running(); }
  void kill_agent() noexcept { agent_.reset(); }

  template <class M>
  void send(const M& message) {
    transmit(kKind<M>, pack(message));
  }

  /// An answer, or `too_long` in its place when the tree does not take it.
  template <class M>
  void answer(const M& message, const M& too_long) {
    std::string content = pack(message);
    transmit(kKind<M>, content.size() <= overlay::kLargestContent ? std::move(content) : pack(too_long));
  }

  /// Calls `use` with the message; a garbled one loses the host.
  template <class M, class Use>
  void with(ByteSpan content, Use use) {
    const auto message = unpack<M>(content);
    message ? use(*message) : post_lost("it sent a garbled message");
  }

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const noexcept override { return ranks_; }
  void start() override;
  void signal(int signo, bool ends_the_job) override;
  void kill_all() override;
  void announce_death(unsigned rank) override { send(Death{rank}); }
  void inquire() override;
  [[nodiscard]] bool owes_answer() const override { return asked_ && !lost_; }

 private:
  void settle() {
    if (std::exchange(settling_, false)) loop_.post(hooks_.on_settled);
  }
  void transmit(Kind kind, std::string content);
  void agent_ended(int wait_status);
  void take_report(launch::Report report);
  bool owns(std::uint32_t rank);
  void post_lost(const std::string& why);
  [[nodiscard]] std::string daemon() const;

  event::Loop& loop_;
  const std::string name_;
  const Timeouts timeouts_;
  stdio::Output& output_;
  const launch::RankHostObserver observer_;
  const Hooks hooks_;
  std::vector<std::string> command_;
  std::unique_ptr<Agent> agent_;
  pid_t pid_ = 0;
  std::string launch_;
  std::vector<std::uint32_t> ranks_;
  bool here_ = false;  // the first message has come along the tree
  bool lost_ = false;
  bool asked_ = false;  // by inquire(), and has not answered
  bool quitting_ = false;
  bool settling_ = false;  // the daemon has been started and is awaited
  std::uint64_t credit_ = 0;
  event::Timer timer_;
};

}  // namespace runtime::daemon
