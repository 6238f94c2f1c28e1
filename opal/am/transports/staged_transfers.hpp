// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/staged_transfers.hpp — put and get of GPU memory over transports that cannot access it: in pieces
// through pinned host memory.  The GPU copies one piece while the transport moves others, in either direction.  The
// memory is gpu::Config::stage_chunks chunks (docs/design/transfers.md).
// Owned by a Context.  Before an endpoint of a transport is destroyed the Context calls abandon() or disconnecting().
// Threads: under the Context's lock.
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/transfer_engine.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/copies/pinned.hpp"

namespace opal::am {

class StagedTransfers final : btl::TransferEngine {
 public:
  explicit StagedTransfers(const gpu::Config& config);
  /// Requires: idle().
  ~StagedTransfers();

  /// As btl::Module::transfer(); `here` is GPU memory.  Errors: no_memory, those of gpu::inspect() and WorkContext.
  Post transfer(btl::OperationKind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  /// Completes when all earlier staged puts to `to` (null: all endpoints) are visible at the target.
  Post flush(const btl::Endpoint* to, Completion& completion) noexcept { return table_.flush(to, completion); }

  /// Continues all transfers; returns the number of events.
  std::size_t progress() noexcept { return idle() ? 0 : work(); }
  [[nodiscard]] bool idle() const noexcept { return table_.active() == 0; }

  /// Ends the transfers of a dead endpoint with `why`.  Waits for the GPU's copies of their pieces.  A transfer with
  /// pieces that the transport has accepted ends when the transport has completed them.
  void abandon(btl::Endpoint& endpoint, const Error& why) noexcept;
  /// As abandon(), before the endpoint is disconnected.  Between this call and disconnected() posts to the endpoint
  /// fail, also posts by completions.
  void disconnecting(btl::Endpoint& endpoint, const Error& why) noexcept;
  void disconnected() noexcept { leaving_ = nullptr; }

 private:
  using Kind = btl::RdmaOperation::Kind;
  struct Chunk;

  Result<void> make_chunks() noexcept;
  std::size_t work() noexcept;

  btl::TransferPiece* take(btl::RdmaOperation& operation) noexcept override;
  [[nodiscard]] std::uint64_t plan(const btl::RdmaOperation& operation, std::uint64_t offset,
                                   std::uint64_t left) const noexcept override;
  Move move(btl::TransferPiece& piece) noexcept override;
  Move moved(btl::TransferPiece& piece) noexcept override;
  void release(btl::TransferPiece& piece) noexcept override;
  void end(btl::RdmaOperation& operation) noexcept override;

  [[nodiscard]] std::uint64_t queue_of(const Chunk& chunk) const noexcept;
  Move copy(Chunk& chunk) noexcept;
  Move copied(Chunk& chunk, const Result<void>& result) noexcept;

  const gpu::Config config_;
  gpu::StagingMemory memory_;  // of all chunks, allocated at the first transfer
  std::vector<Chunk> chunks_;
  std::vector<Chunk*> free_;
  btl::RdmaOperations table_;
  std::deque<std::optional<gpu::WorkContext>> contexts_;  // by the operation's slot
  std::deque<btl::RdmaOperation*> unplanned_;             // operations with bytes that have no chunk yet, round robin
  const btl::RdmaOperation* turn_ = nullptr;              // the only operation that may take a chunk now, and only one
  const btl::Endpoint* leaving_ = nullptr;                // between disconnecting() and disconnected()
  gpu::Copier copier_;
};

}  // namespace opal::am
