// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/transfers.hpp — puts and gets over the rails: cut into pieces, each a put or get of one rail, the rail
// with the least in flight first.  A piece of a broken rail goes again by another, a put only when the peer has said
// that the broken one lets nothing through any more: it could come after a later put to the same place.
// Owned by its module; threads as that.
#pragma once
#include <deque>
#include <span>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/rails/endpoint.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl {
class RdmaEmulation;
}

namespace opal::btl::rails {

/// The handle of `software`, the Context's table's, and the rails' own.  Errors: limit_reached (too long).
Result<MemoryHandle> join(const MemoryHandle& software, std::span<const MemoryHandle> rails);
/// A rail's part.  Errors: protocol (not a handle of rails), unreachable (it has none for this rail).
Result<MemoryHandle> part_of(const MemoryHandle& handle, std::uint32_t rail) noexcept;
/// The Context's table's part.  Errors: protocol.
Result<MemoryHandle> software_of(const MemoryHandle& handle) noexcept;

class Transfers {
 public:
  /// `messages`: where no rail that stands knows the peer's memory.
  Transfers(Module& module, RdmaEmulation& messages, RdmaOperations& operations) noexcept
      : rails_(module), messages_(messages), operations_(operations) {}

  Post start(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
             std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
             Completion& completion) noexcept;

  /// Posts what had to wait; returns how much happened.
  std::size_t progress() noexcept;
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }
  /// Ends what waits for a dead endpoint; what is under way on its routes ends with these.
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

 private:
  struct Piece : Completion {
    Transfers* transfers = nullptr;
    RdmaOperation* operation = nullptr;
    Route* route = nullptr;         // null: not posted, or as messages of the rails
    const Route* broken = nullptr;  // where it was posted before
    std::uint32_t made = 0;         // by which connection of that
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    rcache::Lease lease;
  };
  struct Striped {
    MemoryHandle local;
    bool has_local = false;
    std::uint64_t cut = 0;     // bytes that have been given to pieces
    std::uint32_t pieces = 0;  // not ended
    bool advancing = false;
    Error error{};
  };
  enum class Outcome : std::uint8_t { posted, later, ended };
  [[nodiscard]] Piece& take();
  /// Gives bytes to pieces, posts them, and ends the operation when there is nothing left.
  void advance(RdmaOperation& operation) noexcept;
  Outcome post(Piece& piece) noexcept;
  [[nodiscard]] static bool is_fenced(const Piece& piece) noexcept;
  Post post_as_messages(Piece& piece) noexcept;
  Outcome outcome(Piece& piece, Post post) noexcept;
  static void leave_route(Piece& piece) noexcept;
  Outcome judge(Piece& piece) noexcept;
  void borrow(Piece& piece, std::byte* local, MemoryHandle& handle, const MemoryHandle*& registered) noexcept;
  void on_end(Piece& piece) noexcept;
  void free(Piece& piece) noexcept;

  Module& rails_;
  RdmaEmulation& messages_;
  RdmaOperations& operations_;
  std::deque<Striped> striped_;  // by the operation's slot
  std::deque<Piece> pieces_;
  std::vector<Piece*> free_;
  std::vector<Piece*> waiting_;
};

}  // namespace opal::btl::rails
