// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/connections.hpp — the endpoints of a module, from connect or accept to disconnect.
// It handles the events of the connection manager, makes endpoints, receives what a peer sent before it ended its
// connection, and reports each accepted peer and each failure once to the Observer of the module's opener.
// Invariants: MessageLink::index, which each FIFO item contains, names an endpoint from add() until disconnect() or
// until finish() frees the index.  If an item comes before add(), the receiver calls take_new_peers(); it drops an item
// that comes after disconnect().  finish() frees an index only when both sides have closed the connection and the FIFO
// can hold no item with it.
// Owns the endpoints and the connection manager.  Threads: as the module.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/btl/module.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/connections/connection_manager.hpp"
#include "opal/btl/sm/connections/endpoint.hpp"
#include "opal/btl/sm/messages/memory/fifo.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"

namespace opal::btl::sm {

/// The functions of the module that Connections calls.
class ConnectionUser {
 public:
  /// Called for each new endpoint, before its first message is received.
  virtual void on_new(Endpoint& endpoint) noexcept = 0;
  /// The FIFO has no more messages of this peer: receive what is in its fast box.
  virtual void drain(Endpoint& endpoint) noexcept = 0;
  /// Completes every operation with the endpoint with the error `why`.
  virtual void end_operations(Endpoint& endpoint, const Error& why) noexcept = 0;
  /// The peer has replied to ConnectionManager::expect_file() with a message `file`.
  virtual void on_file(btl::Endpoint& from, ReceivedHello& answer) noexcept = 0;

 protected:
  ~ConnectionUser() = default;
};

class Connections final : public MessagePeers {
 public:
  /// Sets `deferred_work` when finish() has something to do; the module clears it.  All arguments outlive *this.
  Connections(btl::Module& module, const Config& config, ConnectionUser& user, bool& deferred_work)
      : module_(module), config_(config), user_(user), deferred_work_(deferred_work) {}

  /// Opens the socket at which peers connect and starts the connection manager, once and before all else.  `fifo` is
  /// the FIFO of this module; the connection manager writes to the eventfd `doorbell` at each event.  All three outlive
  /// *this.  Errors: os.
  Result<void> start(const LocalSide& local, int doorbell, const FifoConsumer& fifo);

  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] ConnectionManager& manager() const noexcept { return *manager_; }
  /// All endpoints until disconnect(), failed ones included.
  [[nodiscard]] const std::vector<std::unique_ptr<Endpoint>>& endpoints() const noexcept { return endpoints_; }
  /// True in a forked child, if start() has succeeded.
  [[nodiscard]] bool inherited() const noexcept { return manager_ != nullptr && manager_->inherited(); }

  /// As btl::Module::connect().  Blocks until the handshake ends, at most about Config::connect_timeout.
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address);
  /// Closes the connection and destroys the endpoint.  Requires: it has failed, and its operations have ended.
  void disconnect(Endpoint& endpoint) noexcept;

  [[nodiscard]] bool has_events() const noexcept { return manager_->has_events(); }
  /// Handles the events of the connection manager.  Returns their number.
  std::size_t take_events() noexcept;
  /// 1. Calls Observer::on_failed for endpoints that have failed, and for endpoints whose peer has ended the connection
  ///    and whose last messages are received.
  /// 2. Calls Observer::on_accepted for deferred accepts whose earlier connection is reported as failed.
  /// 3. Frees indices.
  /// Called by progress while no message is being handled.  Returns the number of reports.
  std::size_t finish() noexcept;
  /// True while finish() must be called again: something is left to report or to free.
  [[nodiscard]] bool has_unfinished() const noexcept {
    return has_ended() || !deferred_accepts_.empty() || !retired_.empty();
  }
  /// True while the end of a connection has still to be reported.
  [[nodiscard]] bool has_ended() const noexcept { return !draining_.empty() || !failed_.empty(); }

  /// Marks the endpoint dead; finish() reports it.  The caller holds the send lock.
  void fail_with_send_lock(MessagePeer& peer, const Error& why) noexcept override;

 private:
  void take_new_peers() noexcept override {
    if (has_events()) (void)take_events();
  }
  void report_deferred(MessagePeer& peer) noexcept override;

  Endpoint& add(std::unique_ptr<Link> link);
  [[nodiscard]] Endpoint* find(const ConnectionEvent& event) const noexcept;
  void take_answer(Endpoint& endpoint, ReceivedHello& answer) noexcept;
  void accept(std::unique_ptr<Link> link) noexcept;
  void begin_drain(Endpoint& endpoint, const Error& why) noexcept;
  void end_drained(Endpoint& endpoint) noexcept;
  void report_failure(Endpoint& endpoint) noexcept;
  void forget_peer(const btl::Endpoint& endpoint) noexcept;

  struct RetiredIndex {
    std::uint32_t index;
    std::uint64_t until;  // FIFO position; the index is free when the head is there, or the FIFO is empty
  };

  btl::Module& module_;
  const Config& config_;
  ConnectionUser& user_;
  bool& deferred_work_;
  const FifoConsumer* fifo_ = nullptr;
  Address address_{};

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::unordered_map<PeerId, Endpoint*> by_peer_;  // without failed and disconnected peers
  std::vector<Endpoint*> draining_;                // the peer has ended; its last messages are to be received
  std::vector<Endpoint*> failed_;                  // on_failed is still to be called
  std::vector<Endpoint*> deferred_accepts_;        // oldest first; on_accepted waits for on_failed of an earlier one
  std::vector<RetiredIndex> retired_;              // both sides have closed; the FIFO may hold items with them
  std::unique_ptr<ConnectionManager> manager_;     // last: its thread ends before the endpoints are freed
};

}  // namespace opal::btl::sm
