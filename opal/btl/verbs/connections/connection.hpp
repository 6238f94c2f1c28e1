// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/connection.hpp — one queue pair and its connection setup by librdmacm.
// The rdma_cm_id supplies only the addressing and the initial packet sequence numbers.  The queue pair belongs to the
// module's own device context, so this class changes its states itself.
// Asynchronous: the module passes the events of librdmacm's channel to on_event(), which calls the Owner.
// The Owner, where there is one, owns the Connection and may destroy it inside such a call.  Threads: as the module.
#pragma once
#include <array>
#include <span>

#include "opal/btl/verbs/connections/address.hpp"
#include "opal/btl/verbs/device/device.hpp"

namespace opal::btl::verbs {

/// A copy of an event of librdmacm; the original is acknowledged at once.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::array<std::byte, 256> data{};  ///< private data from the peer, unchecked
  std::size_t size = 0;               ///< bytes of data
  std::uint8_t peer_reads = 0;        ///< read and atomic operations that the peer wants to have in flight to this side

  [[nodiscard]] ByteSpan bytes() const noexcept { return ByteSpan{data}.first(size); }
};

class Connection {
 public:
  class Owner {
   public:
    /// The queue pair can send.  `reply`: the acceptor's private data, unchecked; empty at the acceptor.
    virtual void on_connected(ByteSpan reply) noexcept = 0;
    /// The peer has refused; `refusal`: its private data, unchecked.
    virtual void on_refused(ByteSpan refusal) noexcept = 0;
    /// The connection setup failed, or the peer has ended the connection.
    virtual void on_lost(const Error& why) noexcept = 0;
    /// The send request `wc.wr_id` and all unsignalled ones before it ended.  If it failed, only wr_id, status and
    /// vendor_err are valid.
    virtual void on_sent(const ibv_wc& /*wc*/) noexcept {}
    /// A message arrived; `bytes` are unchecked and valid during the call.
    virtual void on_received(ByteSpan /*bytes*/) noexcept {}

   protected:
    ~Owner() = default;
  };

  struct Settings {
    QueueShape shape;
    bool remote_access = false;  ///< the peer may do RDMA reads, writes and atomics over this queue pair
    std::uint8_t ack_timeout = 0;
    int timeout_ms = 0;
  };

  /// `owner`: null for the target's end of a one-sided queue, whose initiator makes a new one if it is lost; events are
  /// ignored.
  Connection(Device& device, const Settings& settings, Owner* owner) noexcept
      : device_(device), settings_(settings), owner_(owner) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Starts connecting from `from` to `to`; copies `request`, at most 56 bytes of private data.
  /// Errors: unreachable, os.
  Result<void> dial(rdma_event_channel& channel, SocketAddress from, const SocketAddress& to, ByteSpan request);
  /// Accepts a request that arrived.  On success it takes `id`, the queue pair can receive, and on_connected() follows.
  /// Errors: limit_reached, os; then `id` stays with the caller, unanswered.
  Result<void> accept(CmId& id, std::uint8_t peer_reads, ByteSpan reply);

  void on_event(const CmEvent& event) noexcept;
  /// Replaces the Owner whose functions are called.
  void hand_over(Owner* owner) noexcept { owner_ = owner; }

  [[nodiscard]] ibv_qp* pair() const noexcept { return pair_.get(); }
  [[nodiscard]] const QueueShape& shape() const noexcept { return settings_.shape; }
  /// The path's MTU, bytes; 0 before there is one.
  [[nodiscard]] unsigned mtu() const noexcept;

  /// Ends all traffic in both directions: posted requests complete with IBV_WC_WR_FLUSH_ERR.
  void stop() noexcept;

 private:
  [[nodiscard]] std::uint8_t depth() const noexcept;
  Result<void> move_to(ibv_qp_state state) noexcept;
  Result<void> request_connection() noexcept;
  /// Makes the queue pair and moves it to `state`: IBV_QPS_INIT at the connector, IBV_QPS_RTS at the acceptor.
  Result<void> make_pair(ibv_qp_state state);
  void offer_extensions() noexcept;
  void accept_extensions() noexcept;
  void step(const Result<void>& outcome) noexcept;

  Device& device_;
  Settings settings_;
  Owner* owner_;
  QueuePair pair_;
  CmId id_;  // destroyed before pair_
  std::array<std::byte, 56> request_{};
  std::size_t request_size_ = 0;
};

}  // namespace opal::btl::verbs
