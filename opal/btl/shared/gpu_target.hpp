// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/gpu_target.hpp — the target's side of emulated puts and gets of GPU memory (rdma_emulation.hpp).
// * Staging: the bytes pass through slots of pinned host memory, one message per slot.  The GPU copies between slots
//   and its memory asynchronously, so several slots of one transfer are in flight at a time.
// * A put is answered when its last copy has ended.  The pieces of a get are sent in order.
// * The number of slots is bounded.  If none is free, a piece is copied synchronously without a slot.  So a peer that
//   does not receive its pieces does not delay other peers.
// * When a registration ends, its copies are waited for: nothing accesses its memory afterwards.
// Owned by the module's RdmaEmulation, which makes it at the first put or get of GPU memory.  Threads: as the module.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/error.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/copies/pinned.hpp"

namespace opal::btl {

class GpuTarget final : RegistrationTable::Follower {
 public:
  GpuTarget(Module& module, RdmaEmulation& messages);
  GpuTarget(const GpuTarget&) = delete;
  GpuTarget& operator=(const GpuTarget&) = delete;
  ~GpuTarget();

  /// True when land() has begun this put and has not answered it.
  [[nodiscard]] bool lands(const Endpoint& from, std::uint64_t operation) noexcept {
    return find_put(from, operation) != nullptr;
  }
  /// Copies a piece of a put to GPU memory.  `data` is read within the call.  `allowed`: the result of the check of the
  /// whole put against its registration; an error ends the put with it.
  /// Requires: the piece lies within [0, piece.total).
  void land(Endpoint& from, const wire::PutPiece& piece, const MemoryHandle& handle, ByteSpan data,
            const Result<void>& allowed) noexcept;
  /// Begins a get and sends its pieces.  Requires: request.total > 0; the caller has checked the registration.
  void serve(Endpoint& to, const wire::GetRequest& request, const MemoryHandle& handle) noexcept;

  /// Continues copies, sends and answers; returns the number of events.
  std::size_t progress() noexcept;
  /// False while a copy is in flight, a get is unfinished or an answer is due: progress() must be called.
  [[nodiscard]] bool idle() const noexcept;
  /// True while copies of the GPU are in flight.
  [[nodiscard]] bool copying() const noexcept { return copier_.pending() != 0; }
  /// Drops the endpoint's transfers.  Copies in flight go on, between slots and registered memory.
  void endpoint_gone(const Endpoint& endpoint) noexcept;

 private:
  enum class Kind : std::uint8_t { put, get };
  struct Transfer;
  /// Pinned memory for the data of one message.
  struct Slot {
    GpuTarget* owner = nullptr;
    std::byte* data = nullptr;
    Transfer* transfer = nullptr;  // null: free, or the transfer was dropped during the copy
    std::uint64_t generation = 0;  // of the registration of the GPU memory
    std::size_t size = 0;          // bytes of data in it
    bool copying = false;          // its copy is in flight
  };
  struct Transfer {
    Kind kind;
    Endpoint* peer;
    std::uint64_t operation;    // the peer's number for it
    MemoryHandle handle{};      // get: the registration
    std::uint64_t base = 0;     // get: first address
    std::uint64_t total = 0;    // get: bytes
    std::uint64_t read = 0;     // get: bytes whose copy from the GPU has begun
    std::uint64_t sent = 0;     // get: bytes
    std::deque<Slot*> slots{};  // get: not sent yet, oldest first
    std::size_t under_way = 0;  // copies in flight
    bool complete = false;      // put: the last piece has arrived
    Error error{};
    std::optional<gpu::WorkContext> work{};  // of the GPU that has the memory; empty after an error

    [[nodiscard]] bool failed() const noexcept { return error.code != Errc{}; }
    /// True when the transfer can be answered (put, failed get) and dropped.
    [[nodiscard]] bool over() const noexcept {
      return kind == Kind::put ? complete && under_way == 0 : failed() || sent == total;
    }
  };

  void registration_ended(std::uint64_t generation) noexcept override;

  Transfer* begin(Kind kind, Endpoint& peer, std::uint64_t operation, std::uint64_t address) noexcept;
  Transfer* find_put(const Endpoint& from, std::uint64_t operation) noexcept;
  void make_slots() noexcept;
  Slot* take_slot() noexcept;
  void give_back(Slot& slot) noexcept;
  Result<void> copy_in(Transfer& transfer, std::uint64_t generation, std::byte* to, ByteSpan data) noexcept;
  std::size_t advance(Transfer& get) noexcept;
  Result<void> read_ahead(Transfer& get) noexcept;
  Result<bool> send_at_once(Transfer& get) noexcept;
  Result<void> start(Slot& slot, Transfer& transfer, std::uint64_t generation, void* to, const void* from) noexcept;
  void copied(Slot& slot, const Result<void>& result) noexcept;
  void answer(const Transfer& transfer) noexcept;
  void forget(Transfer& transfer) noexcept;
  [[nodiscard]] std::uint64_t queue_of(const Slot& slot) const noexcept {
    return static_cast<std::uint64_t>(&slot - slots_.data());
  }
  /// Most data bytes in one message of a get.
  [[nodiscard]] std::uint64_t room() const noexcept { return module_.attributes().max_send - sizeof(wire::GetPiece); }

  Module& module_;
  RdmaEmulation& messages_;
  gpu::StagingMemory memory_;
  std::size_t slot_size_ = 0;
  std::vector<Slot> slots_;  // empty: no staging memory
  std::vector<Slot*> free_;
  std::list<Transfer> transfers_;
  gpu::Copier copier_;
};

}  // namespace opal::btl
