// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/connections.hpp — the endpoints of a module, from connect or accept to disconnect.
// It turns connection events into endpoints, delivers what an ended peer sent before, reports failures once, and
// reuses indices.
// Invariants: an index names an endpoint from the moment the peer may use it until the endpoint is disconnected.  It is
// used again only when no message in the FIFO can have it any more.
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
  /// The peer has sent a descriptor, or refused to.
  virtual void on_file(btl::Endpoint& from, ReceivedFile file) noexcept = 0;

 protected:
  ~ConnectionUser() = default;
};

class Connections final : public MessagePeers {
 public:
  /// `deferred_work` is set when finish() has something to do.
  Connections(btl::Module& module, const Config& config, ConnectionUser& user, bool& deferred_work)
      : module_(module), config_(config), user_(user), deferred_work_(deferred_work) {}

  /// Opens the socket for peers, whose messages `fifo` announces.  Errors: os.
  Result<void> start(const LocalSide& local, int doorbell, const FifoConsumer& fifo);

  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] ConnectionManager& manager() const noexcept { return *manager_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Endpoint>>& endpoints() const noexcept { return endpoints_; }
  /// True in a forked child, and false if start() failed.
  [[nodiscard]] bool inherited() const noexcept { return manager_ != nullptr && manager_->inherited(); }

  /// As btl::Module::connect().
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address);
  /// Forgets the endpoint, whose operations have ended.  `endpoint` dangles afterwards.
  void disconnect(Endpoint& endpoint) noexcept;

  [[nodiscard]] bool has_events() const noexcept { return manager_->has_events(); }
  /// Handles the events of the connection manager.  Returns their number.
  std::size_t take_events() noexcept;
  /// Ends connections that are due, at a point of progress where no message is being handled.  Returns their number.
  std::size_t finish() noexcept;
  /// True while finish() has something to do.
  [[nodiscard]] bool has_unfinished() const noexcept {
    return has_ended() || !deferred_accepts_.empty() || !cooling_.empty();
  }
  /// True while a peer's end has still to be reported.
  [[nodiscard]] bool has_ended() const noexcept { return !draining_.empty() || !failed_.empty(); }

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

  struct CoolingIndex {
    std::uint32_t index;
    std::uint64_t until;  // position of our FIFO
  };

  btl::Module& module_;
  const Config& config_;
  ConnectionUser& user_;
  bool& deferred_work_;
  const FifoConsumer* fifo_ = nullptr;
  Address address_{};

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::unordered_map<PeerId, Endpoint*> by_peer_;  // those that have not ended
  std::vector<Endpoint*> draining_;                // their peers have closed their ends
  std::vector<Endpoint*> failed_;                  // not reported yet
  std::vector<Endpoint*> deferred_accepts_;        // oldest first; see MessagePeer::accept_deferred
  std::vector<CoolingIndex> cooling_;              // closed by both sides, still possible in the FIFO
  std::unique_ptr<ConnectionManager> manager_;     // last: its thread uses what is above
};

}  // namespace opal::btl::sm
