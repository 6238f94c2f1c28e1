// SPDX-License-Identifier: Apache-2.0
// runtime/oob/daemon.hpp — a daemon's (or the launcher's) end of the out-of-band channel.  It runs active-message
// Contexts in the event loop.  Every connection begins in the base Context, which is for tcp only, or for all
// transports if am_transports excludes tcp.  The upgrade Context is for all transports; the first transport upgrade
// opens it.  An endpoint of the base Context identifies a peer, another daemon.  It still does when it has failed and
// the upgrade carries the messages.  Threads: the loop's thread.
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
  std::function<void(const std::string& line)> say;  ///< prints a line for the user
  /// A message with Topic::user or above from another daemon, which has proved the secret.
  std::function<void(opal::am::Endpoint& from, Topic topic, std::string content)> on_message =
      [](opal::am::Endpoint&, Topic, const std::string&) {};
  /// The connection to another daemon has ended.  After the call the endpoint is disconnected, or it carries a new
  /// connection of the same process.
  std::function<void(opal::am::Endpoint& peer, const Error& why)> on_lost = [](opal::am::Endpoint&, const Error&) {};
};

class Daemon final : private opal::am::Observer, private Upgrader {
 public:
  /// `secret`: of the job; every peer must prove it.  `loop` must outlive the daemon.  Errors: those of
  /// am::Context::open.
  static Result<std::unique_ptr<Daemon>> open(event::Loop& loop, const opal::config::Store& store,
                                              const opal::Secret& secret, DaemonHost host);
  ~Daemon() override;

  /// The address for connect() of another daemon.  Valid as long as this object.
  [[nodiscard]] ByteSpan address() const noexcept { return base_.context->address(); }

  /// Connects to another daemon.  The endpoint is valid until disconnect() or the return of on_lost for it.
  /// Errors: those of am::Context::connect.
  Result<opal::am::Endpoint*> connect(ByteSpan address);

  /// Sends or queues a message to another daemon.  Errors: limit_reached, peer_gone.
  Result<void> send(opal::am::Endpoint& to, Topic topic, std::string content);

  /// Ends the connection; messages handed to a transport are still delivered if the peer lives.  Requires: not inside a
  /// call of DaemonHost.
  void disconnect(opal::am::Endpoint& peer);

  /// True while messages to `to` are queued here, or any message waits for room in a Context.
  [[nodiscard]] bool has_unsent(opal::am::Endpoint& to);
  /// The transport in use for messages to `to`; "none" when no endpoint is left.
  [[nodiscard]] std::string_view transport(opal::am::Endpoint& to);

  /// Handles the messages that have arrived before it returns.
  void catch_up();

 private:
  /// A Context in the loop.  service() progresses it only while it is awake.
  struct Side {
    std::unique_ptr<opal::am::Context> context;  // null: not opened
    event::Watch readable;                       // the Context's descriptor
    bool awake = true;                           // it may have work; set by the descriptor and by each operation
    bool armed = false;                          // Context::arm() has succeeded and no message has come since

    /// Progresses the Context.
    void advance();
    /// True while messages are queued in the Context, because a transport has no room.
    [[nodiscard]] bool waits_for_room() const { return context != nullptr && context->waits_for_room(); }
  };
  Daemon(event::Loop& loop, const opal::config::Store& store, const opal::Secret& secret, DaemonHost host);
  Result<void> open_side(Side& side, const opal::config::Store& store, const opal::btl::Handler& handler);
  // opal::am::Observer
  void on_peer_failed(opal::am::Endpoint& endpoint, const Error& why) noexcept override;
  // Upgrader
  ByteSpan upgrade_address() override;
  opal::am::Endpoint* connect_upgrade(ByteSpan address, const opal::am::Endpoint& base) override;
  void disconnect_upgrade(opal::am::Endpoint& endpoint) override;

  void on_piece(opal::btl::Delivery& delivery) noexcept;
  void on_upgrade_piece(opal::btl::Delivery& delivery) noexcept;
  void end_former_connection(opal::am::Endpoint& endpoint);
  void receive(Connection& connection, opal::am::Endpoint& from, ByteSpan piece);
  bool take_upgrade_hello(opal::am::Endpoint& upgrade, ByteSpan piece);
  void disconnect_later(opal::am::Endpoint& endpoint);
  void service();
  void wake() noexcept { base_.awake = upgrade_.awake = true; }
  void post_service();
  void step();
  void after_use(Connection& connection);
  Connection& connection_of(opal::am::Endpoint& endpoint, Connection::Role role = Connection::Role::offers);

  event::Loop& loop_;
  const opal::config::Store store_;
  const opal::Secret secret_;
  const DaemonHost host_;
  bool can_upgrade_ = false;  // am_transports allows other transports than tcp, and their Context could be opened
  Side base_;
  Side upgrade_;
  std::map<opal::am::Endpoint*, std::unique_ptr<Connection>> connections_;  // by base endpoint
  std::map<opal::am::Endpoint*, Connection*> by_upgrade_;
  std::vector<opal::am::Endpoint*> over_;  // unwanted or replaced endpoints, which step() disconnects
  event::Timer retry_;                     // next progress while messages wait for room
  bool service_posted_ = false;
  bool step_ = false;  // step() has work
};

}  // namespace runtime::oob
