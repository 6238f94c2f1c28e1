// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/gpu_target.hpp — the owner's side of emulated puts and gets of GPU memory (rdma_emulation.hpp).
// The bytes go through pinned host memory, a slot per message, and the GPU copies between slots and its memory while
// messages come and go: several slots of one transfer are in flight at a time.  A put is answered when its last copy is
// done; pieces of a get go out in order.  The slots are bounded: a piece that finds none is copied there and then, so a
// peer that does not take its pieces holds up no other peer.  Memory that is deregistered is waited for, so nothing is
// copied to or from it afterwards.
// Owned by the module's emulation, from the first such message on.  Threads: as the module.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/rdma_replies.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/error.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/copies/staging_memory.hpp"

namespace opal::btl {

class GpuTarget final : RegistrationTable::Follower {
 public:
  GpuTarget(Module& module, RdmaReplies& replies);
  GpuTarget(const GpuTarget&) = delete;
  GpuTarget& operator=(const GpuTarget&) = delete;
  ~GpuTarget();

  /// Whether pieces of this put have come here before.
  [[nodiscard]] bool lands(const Endpoint& from, std::uint64_t operation) noexcept;
  /// Takes a piece, which lies within its put; `allowed`: whether the registration allows all of the put.
  void land(Endpoint& from, const wire::PutPiece& piece, const MemoryHandle& handle, ByteSpan data,
            const Result<void>& allowed) noexcept;
  /// Sends the pieces of a get of at least a byte.
  void serve(Endpoint& to, const wire::GetRequest& request, const MemoryHandle& handle) noexcept;

  /// Returns how much happened.
  std::size_t progress() noexcept;
  /// False while something here waits for the GPU or for room in the transport.
  [[nodiscard]] bool idle() const noexcept;
  /// The GPU is at work.
  [[nodiscard]] bool copying() const noexcept { return copier_.pending() != 0; }
  /// Forgets its transfers.  What the GPU is copying for them goes on, in memory of ours or registered memory.
  void endpoint_gone(const Endpoint& endpoint) noexcept;

 private:
  enum class Kind : std::uint8_t { put, get };
  struct Transfer;
  /// Pinned memory for one message, and what is in it.
  struct Slot {
    GpuTarget* owner = nullptr;
    std::byte* data = nullptr;
    Transfer* transfer = nullptr;  // null: it has gone
    std::uint64_t generation = 0;  // of the registration that is copied from or to
    std::size_t size = 0;
    bool copying = false;
  };
  struct Transfer {
    Kind kind;
    Endpoint* peer;
    std::uint64_t operation;  // the peer's name for it
    MemoryHandle handle{};    // get
    std::uint64_t base = 0;
    std::uint64_t total = 0;
    std::uint64_t read = 0;  // bytes that are or were in slots
    std::uint64_t sent = 0;
    std::deque<Slot*> slots{};  // get: those that have not gone out, oldest first
    std::size_t under_way = 0;  // copies
    bool complete = false;      // put: the last piece has come
    Error error{};
    std::optional<gpu::WorkContext> work{};

    [[nodiscard]] bool failed() const noexcept { return error.code != Errc{}; }
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
  [[nodiscard]] std::uint64_t room() const noexcept;  ///< for the data of one message of a get

  Module& module_;
  RdmaReplies& replies_;
  gpu::StagingMemory memory_;
  std::size_t slot_size_ = 0;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::vector<std::uint64_t> queues_;  // of registration_ended(), which must not allocate
  std::list<Transfer> transfers_;
  gpu::Copier copier_;
};

}  // namespace opal::btl
