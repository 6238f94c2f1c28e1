// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/one_sided_queue.hpp — this side's puts, gets and atomics to one peer, on a queue pair of their own.
// A peer's device that refuses one operation breaks the queue pair.  Here it breaks nothing else: the operation that
// was refused fails, a new connection is made, and what stood behind it is posted again; it had not been carried out.
// Operations are registered chunk by chunk, so that registering one overlaps with moving the one before, and posted as
// requests of at most Config::max_request, because a device counts its retries by request.  Memory that cannot be
// registered now goes through message buffers, once nothing is in flight that would give room back.
// Owned by its endpoint; made with the first operation.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/verbs/connections/connection.hpp"
#include "opal/btl/verbs/device/buffers.hpp"
#include "opal/btl/verbs/device/memory.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl::verbs {

class Endpoint;
class Module;

/// What a one-sided queue knows of an operation beyond RdmaOperation.
struct Transfer {
  std::uint32_t key = 0;           ///< the peer's
  Memory::LocalKey local;          ///< the caller's own registration
  AtomicOp op = AtomicOp::add;     ///< atomic
  std::uint64_t operand = 0;       ///< atomic
  std::uint64_t compare = 0;       ///< atomic
  std::uint64_t acknowledged = 0;  ///< bytes that have arrived
};

class OneSidedQueue final : public Connection::Owner {
 public:
  OneSidedQueue(Module& module, Endpoint& endpoint) noexcept : verbs_(module), endpoint_(endpoint) {}
  ~OneSidedQueue() { drop(); }

  /// It can take an operation now.  Connects if it has not begun to.
  [[nodiscard]] bool ready() noexcept;
  /// The peer does not let us in: operations go as messages.
  [[nodiscard]] bool hopeless() const noexcept { return state_ == State::hopeless; }
  /// Takes an operation and posts what there is room for.
  void start(RdmaOperation& operation) noexcept;
  /// Tries again what found no room.
  void resume() noexcept;
  /// Stops everything and gives back what it borrowed; operations stay the module's to finish.
  void drop() noexcept;

  [[nodiscard]] std::uint64_t wake_ns() const noexcept { return state_ == State::resting ? again_ns_ : 0; }
  void on_time(std::uint64_t now) noexcept;

  void on_sent(const ibv_wc& wc) noexcept override;

 private:
  enum class State : std::uint8_t { idle, dialing, resting, connected, broken, hopeless };

  /// A work request in flight.
  struct Piece {
    RdmaOperation* operation = nullptr;
    rcache::Lease lease;
    Memory::LocalKey local;
    MemoryRegion pinned;
    Buffer* buffer = nullptr;
    std::byte* destination = nullptr;  // where the buffer's bytes go in the end
    std::uint32_t size = 0;
  };
  /// Local memory that the first of unposted_ is being posted from or into, in one or more requests.  The last of them
  /// takes what keeps it registered, for a reliable connection completes in order.
  struct Chunk {
    rcache::Lease lease;
    Memory::LocalKey local;
    MemoryRegion pinned;
    std::uint32_t key = 0;
    std::uint64_t left = 0;  // bytes that are not posted yet
  };
  enum class Room : std::uint8_t { posted, later, failed };

  void on_connected(ByteSpan reply) noexcept override;
  void on_refused(ByteSpan refusal) noexcept override;
  void on_lost(const Error& why) noexcept override;

  Result<void> dial() noexcept;
  void rest() noexcept;
  void drop_connection() noexcept;
  void advance() noexcept;
  Room post_piece(RdmaOperation& operation) noexcept;
  Room post_atomic(RdmaOperation& operation) noexcept;
  Room find_memory(Piece& piece, RdmaOperation& operation, std::byte* local, std::uint64_t size) noexcept;
  Room submit(Piece& piece, ibv_send_wr& request) noexcept;
  void release(Piece& piece) noexcept;
  void recover() noexcept;
  [[nodiscard]] std::uint32_t under_way() const noexcept { return posted_ - retired_; }

  Module& verbs_;
  Endpoint& endpoint_;
  State state_ = State::idle;
  std::unique_ptr<Connection> connection_;
  wire::Request request_{};
  std::uint64_t number_ = 0;  // of the last request
  std::uint64_t again_ns_ = 0;
  std::uint64_t give_up_ns_ = 0;
  Chunk chunk_;
  std::vector<Piece> pieces_;  // by number of the request
  std::uint32_t posted_ = 0;   // counted round
  std::uint32_t retired_ = 0;
  std::vector<RdmaOperation*> unposted_;    // in order; the first may be posted in part
  std::vector<RdmaOperation*> unfinished_;  // in order; all of them
};

}  // namespace opal::btl::verbs
