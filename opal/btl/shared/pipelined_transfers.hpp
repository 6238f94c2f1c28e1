// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/pipelined_transfers.hpp — puts and gets between a device and memory that is not registered with the
// target's device.  The remote handle is a SoftwareHandle of the target's address space, or of a range longer than
// rcache_grdma_max_chunk.  The transfer is cut into pieces of half of that, two in flight: one is registered while the
// other moves.  For each piece the initiator requests a registration.  If the handle allows the access, the target
// registers the range through its module's registration cache and lends the device's handle: a lease keeps it
// registered until the initiator returns it, so memory that is being transferred is not evicted.  A piece is then a put
// or get of the module itself.  Small transfers, atomics, and pieces that the device cannot register go by messages
// (rdma_emulation.hpp).
// Part of every MessageTransport; only a module with own_handles has transfers in it.  Such a module calls takes()
// first in put(), get() and atomic(), and progress() and idle() beside those of the emulation.  ConnectedTransport
// calls endpoint_gone().
// Requires: the module's own handles have another length than a SoftwareHandle.  Threads: as the module.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/btl/shared/transfer_engine.hpp"
#include "opal/core/export.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl {

/// Bytes of the first piece of [address, +length), if pieces end at multiples of `max_chunk`, a power of two (0: one
/// piece).  So transfers from different addresses of a buffer share the registrations of later pieces.
constexpr std::size_t first_chunk(std::uintptr_t address, std::size_t length, std::size_t max_chunk) noexcept {
  return max_chunk == 0 ? length : std::min(length, max_chunk - (address & (max_chunk - 1)));
}

class OPAL_EXPORT PipelinedTransfers final : TransferEngine {
 public:
  PipelinedTransfers(Module& module, RdmaEmulation& emulation, RdmaOperations& operations) noexcept
      : TransferEngine(operations), module_(module), emulation_(emulation) {}

  /// Adds the handlers to a Context's table; RdmaEmulation::install() calls it.
  static Result<void> install(HandlerTable& handlers);

  /// True when the device has no registration of `remote`.  Puts and gets then use transfer(), atomics the emulation.
  [[nodiscard]] bool takes(const MemoryHandle& remote) const noexcept;

  /// As Module's put and get.  Requires: takes().
  Post transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept;

  /// Posts again the pieces held under back-pressure; returns how many are no longer held.
  std::size_t progress() noexcept { return retry(); }
  /// True when nothing here waits for progress().
  using TransferEngine::idle;
  /// Ends the registrations lent to the peer, and the transfers on `endpoint` with `why`.  A transfer with pieces in
  /// flight ends with its last piece.
  /// Requires: `endpoint` is dead, and the caller also ends the operations of the emulation and of the device on it.
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

  /// Registrations that are lent to peers now.
  [[nodiscard]] std::size_t lent() const noexcept;

 private:
  struct Piece : TransferPiece {
    enum class State : std::uint8_t {
      to_ask,  ///< the LendRequest is to be sent
      asked,   ///< the target's answer is awaited
      moving,  ///< to be posted, or posted: to the device if `lent`, else by messages
    };
    State state = State::to_ask;
    bool lent = false;            // `device` is lent by the target and must be returned
    std::uint64_t lent_name = 0;  // Lent::name, for the return
    MemoryHandle lent_handle;     // of the target's device; valid while `lent`
    rcache::Lease lease;          // of the local memory
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
  void on_lent(Delivery& delivery) noexcept;
  Move take_lent(Piece& piece, const wire::Lent& lent, ByteSpan handle) noexcept;
  void give_back(Endpoint& to, std::uint64_t name) noexcept;

  // As target.  Bytes of peers are checked before any use.
  Result<rcache::Lease> lend(std::size_t already_lent, const wire::LendRequest& request, ByteSpan handle) noexcept;
  void on_lend_request(Delivery& delivery) noexcept;
  void on_lent_return(Delivery& delivery) noexcept;

  Module& module_;
  RdmaEmulation& emulation_;
  std::vector<std::unique_ptr<Pieces>> pieces_;                     // by RdmaOperation::slot
  using Leases = std::unordered_map<std::uint64_t, rcache::Lease>;  // by Lent::name
  std::unordered_map<const Endpoint*, Leases> lent_;                // by peer
  std::uint64_t last_name_ = 0;
};

}  // namespace opal::btl
