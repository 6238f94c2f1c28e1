// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/staged_transfers.hpp — put and get of GPU memory over transports that cannot take it: in pieces
// through pinned host memory.  A piece is copied by the GPU while others are under way with the transport, in either
// direction; how many there are bounds the memory.  Owned by a Context; its module's endpoints outlive the transfers
// (abandon()). Threads: under the Context's lock.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/copies/staging_memory.hpp"

namespace opal::am {

class StagedTransfers {
 public:
  explicit StagedTransfers(const gpu::Config& config);
  StagedTransfers(const StagedTransfers&) = delete;
  StagedTransfers& operator=(const StagedTransfers&) = delete;
  /// Nothing may be under way.
  ~StagedTransfers();

  /// As btl::Module::put and get; `here` is GPU memory.  Errors: no_memory, those of gpu::inspect() and WorkContext.
  Post put(btl::Endpoint& to, const void* here, std::uint64_t remote_address, const MemoryHandle& remote,
           std::uint64_t size, Completion& completion) noexcept;
  Post get(btl::Endpoint& to, void* here, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
           Completion& completion) noexcept;
  /// Completes when what was put here before to `to` (null: all endpoints) is visible.
  Post flush(const btl::Endpoint* to, Completion& completion) noexcept { return operations_.flush(to, completion); }

  /// Copies, posts, completes; returns how much happened.
  std::size_t progress() noexcept { return operations_.active() == 0 ? 0 : advance(); }
  [[nodiscard]] bool idle() const noexcept { return operations_.active() == 0; }

  /// The endpoint has died or is about to be disconnected: transfers with it end with `why`, those of their pieces that
  /// the transport has accepted, which it ends.
  void abandon(btl::Endpoint& endpoint, const Error& why) noexcept;
  /// The same of one that is disconnected; from here to disconnected() posts to it fail, also those of completions.
  void disconnecting(btl::Endpoint& endpoint, const Error& why) noexcept;
  void disconnected() noexcept { leaving_ = nullptr; }

 private:
  using Kind = btl::RdmaOperation::Kind;
  struct Transfer;
  struct Chunk;

  Post begin(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address, const MemoryHandle& remote,
             std::uint64_t size, Completion& completion) noexcept;
  Result<void> make_chunks() noexcept;
  std::size_t advance() noexcept;
  void start_chunks(Transfer& transfer) noexcept;
  [[nodiscard]] std::uint64_t queue_of(const Chunk& chunk) const noexcept;
  void copy(Chunk& chunk) noexcept;
  void post(Chunk& chunk) noexcept;
  void copied(Chunk& chunk, const Result<void>& result) noexcept;
  void moved(Chunk& chunk) noexcept;
  void chunk_ended(Chunk& chunk, const Error& why) noexcept;
  void end_if_over(Transfer& transfer) noexcept;

  const gpu::Config config_;
  gpu::StagingMemory memory_;  // of all chunks, made at the first use
  std::vector<Chunk> chunks_;
  std::vector<Chunk*> free_;
  std::vector<Chunk*> held_up_;        // the transport, or the copier, had no room
  std::vector<std::uint64_t> queues_;  // of abandon(), which must not allocate
  btl::RdmaOperations operations_;
  std::deque<Transfer> transfers_;          // by slot
  std::deque<Transfer*> unstarted_;         // have pieces that have no chunk yet; oldest first
  const btl::Endpoint* leaving_ = nullptr;  // is being disconnected
  gpu::Copier copier_;
};

}  // namespace opal::am
