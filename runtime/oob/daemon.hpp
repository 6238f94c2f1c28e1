// SPDX-License-Identifier: Apache-2.0
// runtime/oob/daemon.hpp — the launcher's end of the out-of-band channel: an active-message Context in the event loop.
// Ranks connect over whatever transport reaches the launcher, say hello, and are known by rank from then on; what they
// send is checked before use, and a peer that did not say a valid hello gets no service.  Threads: the loop's thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "opal/am/context.hpp"
#include "opal/core/config_store.hpp"
#include "runtime/event/loop.hpp"
#include "runtime/oob/log_collector.hpp"
#include "runtime/oob/sender.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

/// What the daemon needs from the job; called in the loop's thread.
struct DaemonHost {
  std::function<void(int rank, int status, const std::string& text)> on_abort;
  std::function<void(const std::string& line)> say;
  std::function<void(unsigned rank, Topic topic, ByteSpan content)> on_message = [](unsigned, Topic, ByteSpan) {};
  /// A message from Topic::user on of a peer that is no rank: another daemon, which has proved to know the secret.
  std::function<void(opal::am::Endpoint& from, Topic topic, ByteSpan content)> on_daemon_message = {};
  /// A peer that is no rank is out of reach; its endpoint goes after the call.
  std::function<void(opal::am::Endpoint& peer, const Error& why)> on_daemon_lost = {};
};

class Daemon final : private opal::am::Observer {
 public:
  /// `secret`: of the job; ranks must prove to know it.  Errors: those of am::Context::open.
  static Result<std::unique_ptr<Daemon>> open(event::Loop& loop, const opal::config::Store& store,
                                              const opal::Secret& secret, std::string job_id, unsigned ranks,
                                              DaemonHost host);
  ~Daemon() override;

  /// The value of kDaemonVariable for the ranks.
  [[nodiscard]] std::string address_text() const;

  /// Sends to a rank that has said hello.  Errors: unreachable (it has not), limit_reached, peer_gone.
  Result<void> send(unsigned rank, Topic topic, ByteSpan content);

  /// The address blob for connect() of another daemon.
  [[nodiscard]] ByteSpan address() const noexcept { return context_->address(); }

  /// Another daemon, by its address.  Errors: those of am::Context::connect.
  Result<opal::am::Endpoint*> connect(ByteSpan address);

  /// Sends to another daemon.  Errors: limit_reached, peer_gone.
  Result<void> send(opal::am::Endpoint& to, Topic topic, ByteSpan content);

  /// Ends the connection; what was sent is still delivered where the peer lives.  Not from inside of DaemonHost's
  /// calls.
  void disconnect(opal::am::Endpoint& peer);

  /// True while something waits for that daemon to take it.
  [[nodiscard]] bool has_unsent(opal::am::Endpoint& to);

  /// How many ranks are connected.
  [[nodiscard]] std::size_t connected() const noexcept { return by_rank_.size(); }

  /// Handles what has arrived and shows log lines that still wait: before the end.
  void finish();

 private:
  struct Peer;
  Daemon(event::Loop& loop, std::string job_id, unsigned ranks, DaemonHost host);
  void on_peer_failed(opal::am::Endpoint& endpoint, const Error& why) noexcept override;
  void on_piece(opal::btl::Delivery& delivery) noexcept;
  void handle(Peer& peer, Topic topic, ByteSpan content);
  void greet(Peer& peer, ByteSpan content);
  void service();
  void kick();
  void advance();
  Peer& peer_of(opal::am::Endpoint& endpoint);
  void send_to(Peer& peer, Topic topic, ByteSpan content);
  void forget(opal::am::Endpoint& endpoint, const Error& why);

  event::Loop& loop_;
  const std::string job_id_;
  const unsigned ranks_;
  const DaemonHost host_;
  LogCollector log_;
  std::unique_ptr<opal::am::Context> context_;
  std::map<opal::am::Endpoint*, std::unique_ptr<Peer>> peers_;
  std::map<unsigned, Peer*> by_rank_;
  event::Watch readable_;
  event::Timer retry_;
  bool kicked_ = false;
};

}  // namespace runtime::oob
