// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/transfers.hpp — puts and gets over the rails: cut into pieces, each a put or get of one rail, the rail
// with the least under way first.  A piece of a broken rail goes again by another, a put only when the peer has said
// that the broken one lets nothing through any more: it could come after a later put to the same place.
// Owned by its module; threads as that.
#pragma once
#include <deque>
#include <span>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/rails/endpoint.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/shared/transfer_engine.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl::rails {

/// The handle of `software`, the Context's table's, and the rails' own.  Errors: limit_reached (too long).
Result<MemoryHandle> join(const MemoryHandle& software, std::span<const MemoryHandle> rails);
/// A rail's part.  Errors: protocol (not a handle of rails), unreachable (it has none for this rail).
Result<MemoryHandle> part_of(const MemoryHandle& handle, std::uint32_t rail) noexcept;
/// The Context's table's part.  Errors: protocol.
Result<MemoryHandle> software_of(const MemoryHandle& handle) noexcept;

class Transfers final : TransferEngine {
 public:
  /// `messages`: where no rail that stands knows the peer's memory.
  Transfers(Module& module, RdmaEmulation& messages, RdmaOperations& operations) noexcept
      : TransferEngine(operations), rails_(module), messages_(messages) {}

  Post start(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
             std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
             Completion& completion) noexcept;

  /// Posts what had to wait; returns how much happened.
  std::size_t progress() noexcept { return retry(); }
  using TransferEngine::idle;
  /// Ends what waits for a dead endpoint; what is in flight on its routes ends with these.
  using TransferEngine::abandon;

 private:
  struct Piece : TransferPiece {
    Route* route = nullptr;         // null: not posted, or as messages of the rails
    const Route* broken = nullptr;  // where it was posted before
    std::uint32_t made = 0;         // by which connection of that
    rcache::Lease lease;
  };

  TransferPiece* take(RdmaOperation& operation) noexcept override;
  [[nodiscard]] std::uint64_t plan(const RdmaOperation& operation, std::uint64_t offset,
                                   std::uint64_t left) const noexcept override;
  Move move(TransferPiece& piece) noexcept override;
  Move moved(TransferPiece& piece) noexcept override;
  void release(TransferPiece& piece) noexcept override;

  [[nodiscard]] static bool is_fenced(const Piece& piece) noexcept;
  Move outcome(Piece& piece, Post post) noexcept;
  static void leave_route(Piece& piece) noexcept;
  Move judge(Piece& piece) noexcept;
  void borrow(Piece& piece, MemoryHandle& handle, const MemoryHandle*& registered) noexcept;

  Module& rails_;
  RdmaEmulation& messages_;
  std::deque<Piece> pieces_;
  std::vector<Piece*> free_;
};

}  // namespace opal::btl::rails
