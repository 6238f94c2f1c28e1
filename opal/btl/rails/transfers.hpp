// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/transfers.hpp — puts and gets over the rails.  An operation is cut into pieces; each piece is a put or
// get of the rail with the fewest bytes in flight.
// A piece of a failed rail is posted again on another rail.  A piece of a put waits until the peer has confirmed that
// it has ended its side of the failed connection (`fenced`).  Otherwise the old piece could overwrite a later put.
// Owned by its module.  Threads: as the module.
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

/// Joins the handle of the Context's RegistrationTable and the handles of the rails, by rail number; an empty one: that
/// rail has no registration.  Errors: limit_reached (longer than MemoryHandle::kMaxSize).
Result<MemoryHandle> join(const MemoryHandle& software, std::span<const MemoryHandle> rails);
/// The handle of one rail.  Errors: protocol (not a handle of rails), unreachable (it has none for this rail).
Result<MemoryHandle> part_of(const MemoryHandle& handle, std::uint32_t rail) noexcept;
/// The handle of the Context's RegistrationTable.  Errors: protocol (not a handle of rails).
Result<MemoryHandle> software_of(const MemoryHandle& handle) noexcept;

class Transfers final : TransferEngine {
 public:
  /// `messages` moves a piece when no connected rail has a handle of the remote memory.
  Transfers(Module& module, RdmaEmulation& messages, RdmaOperations& operations) noexcept
      : TransferEngine(operations), rails_(module), messages_(messages) {}

  /// As Module's put and get.  Requires: the caller has checked `remote`; size > 0.
  Post start(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
             std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
             Completion& completion) noexcept;

  /// Posts held pieces; returns how many are no longer held.
  std::size_t progress() noexcept { return retry(); }
  using TransferEngine::idle;
  /// Ends the operations on a dead endpoint.  Pieces in flight end when their rail's endpoint is disconnected.
  using TransferEngine::abandon;

 private:
  struct Piece : TransferPiece {
    Route* route = nullptr;         // in flight on it; null: not posted, or posted to the emulation
    const Route* broken = nullptr;  // latest route of a post that was queued; null: none
    std::uint32_t connection = 0;   // Route::connection of `broken` at that time
    rcache::Lease lease;            // of the local memory
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
  Move after_error(Piece& piece) noexcept;
  void borrow(Piece& piece, MemoryHandle& handle, const MemoryHandle*& registered) noexcept;

  Module& rails_;
  RdmaEmulation& messages_;
  std::deque<Piece> pieces_;
  std::vector<Piece*> free_;
};

}  // namespace opal::btl::rails
