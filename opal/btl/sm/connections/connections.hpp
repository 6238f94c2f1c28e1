// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/connections.hpp — the endpoints of a module, from connect or accept to disconnect.
// It turns the connection manager's events into endpoints, delivers what a peer sent before its connection ended,
// reports each new peer and each failure once to the host's Observer, and reuses FIFO indices.
// Invariants: an index in FIFO messages names an endpoint from add() until disconnect(), or until both sides have
// closed the connection.  For a message that comes before add() the receiver calls take_new_peers(); it drops a later
// one.  An index is used again only when both sides have closed and the FIFO can hold no message with it.
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

/// What the connections need of the module.
class ConnectionUser {
 public:
  /// A new endpoint, before its first message.
  virtual void on_new(Endpoint& endpoint) noexcept = 0;
  /// The FIFO has no more messages of this peer: receive what is in its fast box.
  virtual void drain(Endpoint& endpoint) noexcept = 0;
  /// Ends every operation with the endpoint.
  virtual void end_operations(Endpoint& endpoint, const Error& why) noexcept = 0;
  /// The peer has replied to ConnectionManager::expect_file() with a file descriptor or a refusal.
  virtual void on_file(btl::Endpoint& from, ReceivedFile file) noexcept = 0;

 protected:
  ~ConnectionUser() = default;
};

class Connections final : public MessagePeers {
 public:
  /// Sets `deferred_work` when finish() has something to do; the module clears it.  All arguments outlive *this.
  Connections(btl::Module& module, const Config& config, ConnectionUser& user, bool& deferred_work)
      : module_(module), config_(config), user_(user), deferred_work_(deferred_work) {}

  /// Opens the socket at which peers connect and starts the connection manager, once and before all else.  `fifo` is
  /// our FIFO; `doorbell` is written at each event.  All three outlive *this.  Errors: os.
  Result<void> start(const LocalSide& local, int doorbell, const FifoConsumer& fifo);

  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] ConnectionManager& manager() const noexcept { return *manager_; }
  /// Those that are not disconnected, failed ones included.
  [[nodiscard]] const std::vector<std::unique_ptr<Endpoint>>& endpoints() const noexcept { return endpoints_; }
  /// True in a forked child, if start() has succeeded.
  [[nodiscard]] bool inherited() const noexcept { return manager_ != nullptr && manager_->inherited(); }

  /// As btl::Module::connect().  Blocks until the handshake ends, at most btl_sm_connect_timeout.
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address);
  /// Closes the connection and destroys the endpoint.  Requires: it has failed, and its operations have ended.
  void disconnect(Endpoint& endpoint) noexcept;

  [[nodiscard]] bool has_events() const noexcept { return manager_->has_events(); }
  /// Handles the events of the connection manager.  Returns their number.
  std::size_t take_events() noexcept;
  /// Reports peers whose last messages were received and endpoints that have failed, then accepted peers whose earlier
  /// connection is reported; frees indices.  Called by progress while no message is being handled.  Returns the number
  /// of reports.
  std::size_t finish() noexcept;
  /// True while finish() has something to do.
  [[nodiscard]] bool has_unfinished() const noexcept {
    return has_ended() || !deferred_accepts_.empty() || !retired_.empty();
  }
  /// True while a peer's end has still to be reported.
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
  void accept(std::unique_ptr<Link> link) noexcept;
  void begin_drain(Endpoint& endpoint, const Error& why) noexcept;
  void end_drained(Endpoint& endpoint) noexcept;
  void report_failure(Endpoint& endpoint) noexcept;
  void forget_peer(const btl::Endpoint& endpoint) noexcept;

  struct RetiredIndex {
    std::uint32_t index;
    std::uint64_t until;  // free once the FIFO's head is here
  };

  btl::Module& module_;
  const Config& config_;
  ConnectionUser& user_;
  bool& deferred_work_;
  const FifoConsumer* fifo_ = nullptr;
  Address address_{};

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::unordered_map<PeerId, Endpoint*> by_peer_;  // without failed and disconnected peers
  std::vector<Endpoint*> draining_;                // their peers have closed their ends
  std::vector<Endpoint*> failed_;                  // not reported yet
  std::vector<Endpoint*> deferred_accepts_;        // oldest first; not reported before the peer's earlier connection
  std::vector<RetiredIndex> retired_;              // of closed connections; messages in the FIFO may still have them
  std::unique_ptr<ConnectionManager> manager_;     // last: its thread has ended before the endpoints go
};

}  // namespace opal::btl::sm
