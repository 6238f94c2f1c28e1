// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/remote_host.hpp — the launcher's object for another host of the job: a RankHost that works by messages
// to and from the daemon of that host.  States: the launch agent runs and the daemon is awaited; here (the first
// message of the daemon has come along the tree); lost (final).  Owns the launch agent.  Threads: the loop's thread.
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
    /// Sends a message to the daemon; the tree keeps it until the daemon has its place.
    std::function<Result<void>(Kind kind, std::string content)> send;
    std::function<void(int status, const std::string& why)> on_lost;  ///< runs once; `status` is for the job's exit
    std::function<void()> expel;                                      ///< declares the host lost in the tree of daemons
    /// Runs once after start_daemon(): the daemon has joined or the host is lost.  Not after kill_all().
    std::function<void()> on_settled;
  };
  RemoteHost(event::Loop& loop, std::string name, const Timeouts& timeouts, stdio::Output& output,
             launch::RankHostObserver observer, Hooks hooks);

  /// Runs `command`, a launch agent, with `bootstrap` as its stdin.  A failure calls Hooks::on_lost.
  void start_daemon(std::vector<std::string> command, const std::string& bootstrap);
  /// Sets the message that start() sends, and the ranks of this host in ascending order.
  void set_launch(const Launch& launch, std::vector<std::uint32_t> ranks);
  /// Runs when the ranks of this host have taken `bytes` more bytes of the launcher's stdin (message Input).
  std::function<void(std::uint64_t bytes)> on_input_taken = [](std::uint64_t) {};
  /// The daemon has sent Join.  This ends the start timeout.  It gets its place when all daemons above it have joined
  /// or are lost.  From its first message along the tree on, the tree of daemons detects its loss; until then the end
  /// of its agent is a loss, too.
  void joined(pid_t pid) {
    pid_ = pid;
    timer_ = {};
    settle();
  }
  /// Handles a message of the daemon.  Returns false for a kind that the Hub handles.  A garbled message makes the host
  /// lost.
  bool handle(Kind kind, ByteSpan content);
  /// Makes the host lost: kills the agent, calls Hooks::expel and Hooks::on_lost.  Does nothing after quit().
  void lost(int status, const std::string& why);
  /// The tree of daemons reports the loss of the daemon.
  void lost(overlay::Loss how);
  [[nodiscard]] bool is_lost() const noexcept { return lost_; }
  /// Sends the Credit that was kept while the launcher's output was full.
  void give_credit();
  /// Sends Quit.  After it neither the end of the agent nor that of the daemon is a loss.
  void quit();
  /// True when no launch agent runs (an agent normally runs as long as its daemon).
  [[nodiscard]] bool agent_is_gone() const noexcept { return !agent_ || !agent_->running(); }
  void kill_agent() noexcept { agent_.reset(); }

  template <class M>
  void send(const M& message) {
    transmit(kKind<M>, pack(message));
  }

  /// Sends `message`, or `too_long` if the tree refuses a message of that size.
  template <class M>
  void answer(const M& message, const M& too_long) {
    std::string content = pack(message);
    transmit(kKind<M>, content.size() <= overlay::kLargestContent ? std::move(content) : pack(too_long));
  }

  /// Unpacks a message and calls `use` with it.  A garbled message makes the host lost.
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
  bool asked_ = false;  // Inquire was sent; Answered has not come
  bool quitting_ = false;
  bool settling_ = false;     // start_daemon() was called and on_settled has not run
  std::uint64_t credit_ = 0;  // bytes of output that were taken and not acknowledged to the daemon
  event::Timer timer_;        // until the daemon must have joined
};

}  // namespace runtime::daemon
