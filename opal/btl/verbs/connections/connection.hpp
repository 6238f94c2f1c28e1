// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/connection.hpp — one queue pair on its way from nothing to connected, by the RDMA
// connection manager. The manager's identifier only finds the way (device, path, GID, packet numbers); the queue pair
// belongs to the module's own device context, so we move it through its states ourselves.  Everything is asynchronous:
// events of the manager's channel are handed to on_event(). Owned by what uses it, which is told through Owner from
// inside on_event() and may destroy it there.
#pragma once
#include <array>
#include <span>

#include "opal/btl/verbs/connections/address.hpp"
#include "opal/btl/verbs/device/device.hpp"

namespace opal::btl::verbs {

/// An event of the connection manager, copied, so that it could be acknowledged.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::array<std::byte, 256> data{};  ///< the peer's
  std::size_t size = 0;
  std::uint8_t peer_reads = 0;  ///< read and atomic operations that the peer may have in flight to us

  [[nodiscard]] ByteSpan bytes() const noexcept { return ByteSpan{data}.first(size); }
};

class Connection {
 public:
  class Owner {
   public:
    /// The queue pair can send.  `reply`: the acceptor's bytes, unchecked; empty at the acceptor.
    virtual void on_connected(ByteSpan reply) noexcept = 0;
    /// The peer has refused; `refusal`: its bytes, unchecked.
    virtual void on_refused(ByteSpan refusal) noexcept = 0;
    /// It did not come to a connection, or the peer has ended it.
    virtual void on_lost(const Error& why) noexcept = 0;
    /// A send request, or several of which it is the last, ended.  `wc.wr_id` is as posted; only that, status and
    /// vendor_err are valid in a failed one.
    virtual void on_sent(const ibv_wc& /*wc*/) noexcept {}
    /// A message arrived; `bytes` are valid during the call, and the peer's.
    virtual void on_received(ByteSpan /*bytes*/) noexcept {}

   protected:
    ~Owner() = default;
  };

  struct Settings {
    QueueShape shape;
    bool remote_access = false;  ///< the peer may read, write and operate on memory over it
    std::uint8_t retry_count = 0;
    std::uint8_t ack_timeout = 0;
    int timeout_ms = 0;
  };

  Connection(Device& device, const Settings& settings, Owner& owner) noexcept
      : device_(device), settings_(settings), owner_(&owner) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Starts connecting from `from` to `to` with the request's bytes.  Errors: unreachable, os.
  Result<void> dial(rdma_event_channel& channel, SocketAddress from, const SocketAddress& to, ByteSpan request);
  /// Takes a request that arrived; on success the queue pair can receive, and soon send.  Errors: limit_reached, os;
  /// the identifier is given back unanswered then.
  Result<void> accept(CmId& id, std::uint8_t peer_reads, ByteSpan reply);

  void on_event(const CmEvent& event) noexcept;
  /// From now on `owner` is told.
  void hand_over(Owner& owner) noexcept { owner_ = &owner; }

  [[nodiscard]] ibv_qp* pair() const noexcept { return pair_.get(); }
  [[nodiscard]] const QueueShape& shape() const noexcept { return settings_.shape; }
  /// The path's MTU, bytes; 0 before there is one.
  [[nodiscard]] unsigned mtu() const noexcept;

  /// Nothing gets through any more, in either direction: what is posted comes back flushed.
  void stop() noexcept;

 private:
  [[nodiscard]] std::uint8_t depth() const noexcept;
  Result<void> move_to(ibv_qp_state state) noexcept;
  Result<void> request_connection() noexcept;
  Result<void> make_pair(ibv_qp_state state);
  void step(const Result<void>& outcome) noexcept;

  Device& device_;
  Settings settings_;
  Owner* owner_;
  QueuePair pair_;
  CmId id_;  // before the queue pair goes
  std::array<std::byte, 56> request_{};
  std::size_t request_size_ = 0;
};

}  // namespace opal::btl::verbs
