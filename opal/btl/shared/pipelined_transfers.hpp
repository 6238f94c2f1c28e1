// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/pipelined_transfers.hpp — puts and gets that a device cannot do as one operation on registered
// memory:
//   large local buffers   at most rcache_grdma_max_chunk bytes of one are registered at a time: two pieces of half of
//                         that, the next being registered while the other moves;
//   whole address spaces  the remote handle is the software one of the owner's Context: each piece is lent a device's
//                         handle by the owner (lent_registrations.hpp); small ones, atomics, and what the device has
//                         no room for, go by messages (rdma_emulation.hpp).
// A piece is a put or get of the module itself, with registered memory on both sides.  A transfer counts among the
// module's RdmaOperations, so that its flush waits for it.
// A module whose device has handles of its own has one of these, asks takes() first in put(), get() and atomic(),
// returns it from transfers(), and calls progress(), idle() and endpoint_gone() beside the emulation's.  Its own
// handles must not be as long as a SoftwareHandle.
// Threads: as the module.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/lent_registrations.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/export.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl {

class RdmaEmulation;

class OPAL_EXPORT PipelinedTransfers {
 public:
  PipelinedTransfers(Module& module, RdmaEmulation& emulation, RdmaOperations& operations) noexcept
      : module_(module), emulation_(emulation), operations_(operations), lent_(module) {}
  PipelinedTransfers(const PipelinedTransfers&) = delete;
  PipelinedTransfers& operator=(const PipelinedTransfers&) = delete;
  ~PipelinedTransfers() = default;

  /// Puts the handlers into a Context's table; RdmaEmulation::install() does it.
  static Result<void> install(HandlerTable& handlers);

  /// True for operations that belong here.
  [[nodiscard]] bool takes(const MemoryHandle& remote) const noexcept;
  [[nodiscard]] bool takes(const MemoryHandle* local, const MemoryHandle& remote, std::uint64_t size) const noexcept;

  /// As Module's.  A range that the remote handle does not cover is the caller's to refuse where it is a device's.
  Post put(Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
           const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  Post get(Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
           const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  /// Of an address space.
  Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept;

  /// Goes on with what waits for room; returns how much happened.
  std::size_t progress() noexcept;
  /// True when nothing here waits for progress().
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty() && returns_.empty() && lent_.idle(); }
  /// Takes back what was lent to `endpoint`, and ends the transfers on it, those with pieces under way when these have
  /// ended: to be called before the emulation and the module end theirs.
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

  /// Registrations lent to peers now.
  [[nodiscard]] std::size_t lent() const noexcept { return lent_.lent(); }

 private:
  struct Transfer;
  struct Piece : Completion {
    enum class State : std::uint8_t {
      free,
      to_ask,   ///< the owner for a registration
      asked,    ///< it
      to_move,  ///< with registered memory on the remote side
      moving,
    };
    Transfer* transfer = nullptr;
    State state = State::free;
    std::uint32_t index = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    bool lent = false;  // `device` is, and has to be given back
    std::uint64_t lent_name = 0;
    MemoryHandle device;
    rcache::Lease local;
  };
  struct Transfer {
    RdmaOperation* operation = nullptr;  // null: free
    PipelinedTransfers* owner = nullptr;
    std::byte* bytes = nullptr;
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint64_t started = 0;
    bool whole = false;      // the remote handle is of an address space
    bool has_local = false;  // the caller's handle
    bool waiting = false;    // in waiting_
    bool advancing = false;
    Error error{};
    MemoryHandle remote;
    MemoryHandle local;
    std::array<Piece, 2> pieces;
  };

  Post begin(RdmaOperation::Kind kind, Endpoint& to, std::byte* bytes, const MemoryHandle* local,
             std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
             Completion& completion) noexcept;
  Transfer& open(RdmaOperation& operation, const MemoryHandle& remote) noexcept;
  Post answer(Transfer& transfer, bool goes_on) noexcept;
  [[nodiscard]] bool advance(Transfer& transfer) noexcept;
  /// True for a piece that has not gone out.
  static bool waits(const Piece& piece) noexcept {
    return piece.state == Piece::State::to_ask || piece.state == Piece::State::to_move;
  }
  void start(Transfer& transfer, Piece& piece) noexcept;
  [[nodiscard]] bool step(Transfer& transfer, Piece& piece) noexcept;
  [[nodiscard]] bool ask(Transfer& transfer, Piece& piece) noexcept;
  [[nodiscard]] bool move(Transfer& transfer, Piece& piece) noexcept;
  [[nodiscard]] bool emulate(Transfer& transfer, Piece& piece) noexcept;
  [[nodiscard]] bool take(Transfer& transfer, Piece& piece, Post post) noexcept;
  void release(Transfer& transfer, Piece& piece) noexcept;
  void end_piece(Piece& piece, const Error& why) noexcept;
  void give_back(Endpoint& to, std::uint64_t name) noexcept;
  void finish(Transfer& transfer) noexcept;
  [[nodiscard]] std::uint64_t piece_size() const noexcept;

  void on_lend_request(Delivery& delivery) noexcept { lent_.on_request(delivery); }
  void on_lent_return(Delivery& delivery) noexcept { lent_.on_return(delivery); }
  void on_lent(Delivery& delivery) noexcept;

  struct Return {
    Endpoint* to;
    std::uint64_t name;
  };

  Module& module_;
  RdmaEmulation& emulation_;
  RdmaOperations& operations_;
  LentRegistrations lent_;
  std::deque<Transfer> transfers_;  // by the operation's slot; stable addresses
  std::size_t active_ = 0;
  std::vector<Transfer*> waiting_;  // for room somewhere
  std::vector<Return> returns_;     // to be sent
};

}  // namespace opal::btl
