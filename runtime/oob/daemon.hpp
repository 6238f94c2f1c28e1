// SPDX-License-Identifier: Apache-2.0
// runtime/oob/daemon.hpp — a daemon's end of the out-of-band channel: active-message Contexts in the event loop, one
// for tcp, where every connection begins, and one for all transports, opened when a peer first asks for a transport
// upgrade. Ranks connect, say hello, and are known by rank from then on; what they send is checked before use, and a
// peer that did not say a valid hello gets no service.  A peer's endpoint of the first Context stands for it, also when
// that way is dead and another carries its messages.  Threads: the loop's thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/core/config/store.hpp"
#include "runtime/event/loop.hpp"
#include "runtime/oob/connection.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

/// What the daemon needs from the job; called in the loop's thread.
struct DaemonHost {
  std::function<void(const std::string& line)> say;
  /// A message from Topic::user on of a peer that is no rank: another daemon, which has proved to know the secret.
  std::function<void(opal::am::Endpoint& from, Topic topic, std::string content)> on_daemon_message = {};
  /// The connection to a peer that is no rank is over: its endpoint goes after the call, or carries a new connection of
  /// the same process, whose messages follow.
  std::function<void(opal::am::Endpoint& peer, const Error& why)> on_daemon_lost = {};
};

class Daemon final : private opal::am::Observer, private Upgrader {
 public:
  /// `secret`: of the job; ranks must prove to know it.  Errors: those of am::Context::open.
  static Result<std::unique_ptr<Daemon>> open(event::Loop& loop, const opal::config::Store& store,
                                              const opal::Secret& secret, std::string job_id, unsigned ranks,
                                              DaemonHost host);
  ~Daemon() override;

  /// The value of kDaemonVariable for the ranks.
  [[nodiscard]] std::string address_text() const;

  /// The address blob for connect() of another daemon.
  [[nodiscard]] ByteSpan address() const noexcept { return base_.context->address(); }

  /// Another daemon, by its address.  Errors: those of am::Context::connect.
  Result<opal::am::Endpoint*> connect(ByteSpan address);

  /// Sends to another daemon.  Errors: limit_reached, peer_gone.
  Result<void> send(opal::am::Endpoint& to, Topic topic, std::string content);

  /// Ends the connection; what was sent is still delivered if the peer exists.  Not from inside of DaemonHost's
  /// calls.
  void disconnect(opal::am::Endpoint& peer);

  /// True while something waits for that daemon to take it.
  [[nodiscard]] bool has_unsent(opal::am::Endpoint& to);
  /// The transport that carries what is sent to that daemon now.
  [[nodiscard]] std::string_view transport(opal::am::Endpoint& to);

  /// Handles what has arrived now, not when the loop comes to it.
  void catch_up();

 private:
  struct Peer;
  /// A Context with its place in the loop.  It is looked at only while it is awake: from when its descriptor is
  /// readable, or something was done with it that it may have to go on with, until it has nothing more to do.
  struct Side {
    std::unique_ptr<opal::am::Context> context;
    event::Watch readable;
    bool awake = true;
    bool armed = false;

    /// Whether something happened, or is to be looked at again.
    bool advance();
  };
  Daemon(event::Loop& loop, const opal::config::Store& store, const opal::Secret& secret, std::string job_id,
         unsigned ranks, DaemonHost host);
  Result<void> open_side(Side& side, const opal::config::Store& store, const opal::btl::Handler& handler);
  // opal::am::Observer
  void on_peer_failed(opal::am::Endpoint& endpoint, const Error& why) noexcept override;
  // Upgrader
  ByteSpan upgrade_address() override;
  opal::am::Endpoint* connect_upgrade(ByteSpan address, const opal::am::Endpoint& base) override;
  void disconnect_upgrade(opal::am::Endpoint& endpoint) override;

  void on_piece(opal::btl::Delivery& delivery) noexcept;
  void on_upgrade_piece(opal::btl::Delivery& delivery) noexcept;
  void renew(opal::am::Endpoint& endpoint);
  void supersede(const opal::am::Endpoint& fresh);
  void receive(Peer& peer, opal::am::Endpoint& from, ByteSpan piece);
  void handle(Peer& peer, const Assembler::Message& message);
  void on_hello(Peer& peer, ByteSpan content);
  bool take_upgrade_hello(opal::am::Endpoint& upgrade, ByteSpan piece);
  void expel(opal::am::Endpoint& endpoint);
  void service();
  void wake() noexcept { base_.awake = upgrade_.awake = true; }
  void kick();
  void send_blocked();
  void step();
  void step_peer(Peer& peer);
  Peer& peer_of(opal::am::Endpoint& endpoint, Connection::Role role = Connection::Role::offers);
  void send_to(Peer& peer, Topic topic, ByteSpan content);
  void lose(opal::am::Endpoint& endpoint);
  void forget(Peer& peer, const Error& why);

  event::Loop& loop_;
  const opal::config::Store store_;
  const opal::Secret secret_;
  const std::string job_id_;
  const unsigned ranks_;
  const DaemonHost host_;
  bool can_upgrade_ = false;  // transports than tcp
  Side base_;
  Side upgrade_;
  std::map<opal::am::Endpoint*, std::unique_ptr<Peer>> peers_;
  std::map<opal::am::Endpoint*, Peer*> by_upgrade_;
  std::vector<opal::am::Endpoint*> over_;  // no peer's, or of one that has come back by another: to be disconnected
  event::Timer retry_;
  bool kicked_ = false;
  bool blocked_ = false;  // some peer's way took nothing more at the last try
  bool step_ = false;     // some peer or endpoint waits for step()
};

}  // namespace runtime::oob
