// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/one_sided_queue.hpp — the puts, gets and atomics of this process to one peer, on a separate queue
// pair. If the peer's device refuses an operation, the queue pair breaks, but not the message connection: the refused
// operation fails, the queue connects again, and the operations behind it, which the device has not executed, are
// posted again.
// The local memory of an operation is registered chunk by chunk, so that the registration of one chunk overlaps with
// the transfer of the one before.  A work request has at most Config::max_request bytes, since a device counts its
// retries per request.  Memory that cannot be registered is copied through message buffers, but only when no operation
// is in flight whose end would release registrations.
// A request is posted at once if none is in flight and no batch is open.  The others are collected and posted with one
// doorbell by the next progress(), by a flush, at the end of a batch, or when the list is full.  Only the last request
// of a list is signalled.
// Owned by its endpoint, created at the first operation.  Threads: as the module.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/verbs/connections/connection.hpp"
#include "opal/btl/verbs/device/buffers.hpp"
#include "opal/btl/verbs/device/memory.hpp"
#include "opal/btl/verbs/request_list.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl::verbs {

class Endpoint;
class Module;

class OneSidedQueue final : public Connection::Owner {
 public:
  OneSidedQueue(Module& module, Endpoint& endpoint) noexcept : verbs_(module), endpoint_(endpoint) {}
  ~OneSidedQueue() { drop(); }

  /// True if start() may be called now.  Begins to connect if that has not happened.
  [[nodiscard]] bool ready() noexcept;
  /// True if no connection can be made: operations must be emulated by messages.
  [[nodiscard]] bool hopeless() const noexcept { return state_ == State::hopeless; }
  /// Queues an operation and posts as much of it as there is room for.  Requires: ready().
  void start(RdmaOperation& operation) noexcept;
  /// Retries the operations that found no room.
  void resume() noexcept;
  /// Posts the requests that have been collected.
  void post_collected() noexcept;
  /// Closes the connection and releases all registrations and buffers; the module then completes the operations.
  void drop() noexcept;

  void on_sent(const ibv_wc& wc) noexcept override;

 private:
  enum class State : std::uint8_t { idle, dialing, connected, broken, hopeless };

  /// A work request in flight or collected.
  struct Piece {
    RdmaOperation* operation = nullptr;
    rcache::Lease lease;
    Memory::Local local;
    MemoryRegion pinned;
    Buffer* buffer = nullptr;
    std::byte* destination = nullptr;  // get through `buffer`: where its bytes are copied to at the end
    std::uint32_t size = 0;            // bytes
  };
  /// The registered local memory of which the first operation of unposted_ posts one or more work requests.  The last
  /// of these holds the registration, since the requests of a reliable connection complete in order.
  struct Chunk {
    rcache::Lease lease;
    Memory::Local local;
    MemoryRegion pinned;
    std::uint32_t key = 0;
    std::uint64_t left = 0;  // bytes that are not posted yet
  };
  enum class Room : std::uint8_t { posted, later, failed };  // later: no room now, resume() retries

  void on_connected(ByteSpan reply) noexcept override;
  void on_refused(ByteSpan refusal) noexcept override;
  void on_lost(const Error& why) noexcept override;

  Result<void> dial() noexcept;
  void drop_connection() noexcept;
  void advance() noexcept;
  Room post_piece(RdmaOperation& operation) noexcept;
  Room post_atomic(RdmaOperation& operation) noexcept;
  Room find_memory(Piece& piece, RdmaOperation& operation, std::byte* local, std::uint64_t size) noexcept;
  void submit(ibv_send_wr& request) noexcept;
  void succeed() noexcept;               // the oldest request, after on_sent()
  void fail(const ibv_wc& wc) noexcept;  // the oldest request, with the status of `wc`
  void release(Piece& piece) noexcept;
  void recover() noexcept;
  [[nodiscard]] std::uint32_t under_way() const noexcept { return posted_ - retired_; }

  Module& verbs_;
  Endpoint& endpoint_;
  State state_ = State::idle;
  std::unique_ptr<Connection> connection_;
  wire::Request request_{};
  std::uint64_t number_ = 0;      // of the last request
  std::uint64_t give_up_ns_ = 0;  // deadline of the connection setup, of now_ns(); 0: none was begun
  Chunk chunk_;
  RequestList collected_;
  std::vector<Piece> pieces_;               // by number of the work request modulo size
  std::uint32_t posted_ = 0;                // number of work requests so far, collected ones included, modulo 2^32
  std::uint32_t retired_ = 0;               // number of those that have ended, modulo 2^32
  std::vector<RdmaOperation*> unposted_;    // in order of start(); the first may be posted in part
  std::vector<RdmaOperation*> unfinished_;  // all operations of this queue, in order of start()
};

}  // namespace opal::btl::verbs
