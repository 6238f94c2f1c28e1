// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/pipelined_transfers.hpp — puts and gets that a device cannot do as one operation on registered
// memory:
//   large local buffers   at most rcache_grdma_max_chunk bytes of one are registered at a time: two pieces of half of
//                         that, the next being registered while the other moves;
//   whole address spaces  the remote handle is the software one of the owner's Context: each piece is lent a device's
//                         handle by the owner (lent_registrations.hpp); small ones, atomics, and what the device has
//                         no room for, go by messages (rdma_emulation.hpp).
// A piece is a put or get of the module itself, with registered memory on both sides.
// A module whose device has handles of its own has one of these, asks takes() first in put(), get() and atomic(),
// returns it from transfers(), and calls progress(), idle() and endpoint_gone() beside the emulation's.  Its own
// handles must not be as long as a SoftwareHandle.
// Threads: as the module.
#pragma once
#include <array>
#include <cstdint>
#include <deque>

#include "opal/btl/atomic.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/shared/lent_registrations.hpp"
#include "opal/btl/shared/transfer_engine.hpp"
#include "opal/core/export.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl {

class OPAL_EXPORT PipelinedTransfers final : TransferEngine {
 public:
  PipelinedTransfers(Module& module, RdmaEmulation& emulation, RdmaOperations& operations) noexcept;

  /// Puts the handlers into a Context's table; RdmaEmulation::install() does it.
  static Result<void> install(HandlerTable& handlers);

  /// True for operations that belong here.
  [[nodiscard]] bool takes(const MemoryHandle& remote) const noexcept;
  [[nodiscard]] bool takes(const MemoryHandle* local, const MemoryHandle& remote, std::uint64_t size) const noexcept;

  /// As Module's put and get.  A range that the remote handle does not cover is the caller's to refuse where it is a
  /// device's.
  Post transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept;

  /// Goes on with what waits for room; returns how much happened.
  std::size_t progress() noexcept { return retry(); }
  /// True when nothing here waits for progress().
  using TransferEngine::idle;
  /// Takes back what was lent to `endpoint`, and ends the transfers on it, those with pieces in flight when these have
  /// ended: to be called before the emulation and the module end theirs.
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

  /// Registrations lent to peers now.
  [[nodiscard]] std::size_t lent() const noexcept { return lent_.lent(); }

 private:
  struct Piece : TransferPiece {
    enum class State : std::uint8_t {
      to_ask,   ///< the owner for a registration
      asked,    ///< it
      to_move,  ///< with registered memory on the remote side, or by messages
    };
    State state = State::to_ask;
    bool lent = false;  // `device` is, and has to be given back
    std::uint64_t lent_name = 0;
    MemoryHandle device;
    rcache::Lease lease;  // of the local memory
  };
  using Pieces = std::array<Piece, 2>;

  TransferPiece* take(RdmaOperation& operation) noexcept override;
  [[nodiscard]] std::uint64_t plan(const RdmaOperation& operation, std::uint64_t offset,
                                   std::uint64_t left) const noexcept override;
  Move move(TransferPiece& piece) noexcept override;
  void release(TransferPiece& piece) noexcept override;

  Move ask(Piece& piece) noexcept;
  Move move_registered(Piece& piece) noexcept;
  Move move_by_messages(Piece& piece) noexcept;
  void on_lend_request(Delivery& delivery) noexcept { lent_.on_request(delivery); }
  void on_lent_return(Delivery& delivery) noexcept { lent_.on_return(delivery); }
  void on_lent(Delivery& delivery) noexcept;
  Move take_lent(Piece& piece, const wire::Lent& lent, ByteSpan handle) noexcept;
  void give_back(Endpoint& to, std::uint64_t name) noexcept;

  Module& module_;
  RdmaEmulation& emulation_;
  LentRegistrations lent_;
  std::deque<Pieces> pieces_;  // by the operation's slot; stable addresses
};

}  // namespace opal::btl
