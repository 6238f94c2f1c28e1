// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/transfer.hpp — MPI_Put or MPI_Get as one-sided operations of the transport: one for each contiguous
// block at the target, at most kMostInFlight at a time.  A noncontiguous origin goes through a packed copy.
// Done: a put is visible at the target, a get is in the origin.  Error: no more blocks are posted; the request ends
// when those in flight have ended, with the first error, which Target::note() gets, too.
// Owned by the ObjectPool of Windows.  Borrows the origin's memory and the Target until done; shares the datatypes.
// Threads: under the Context's lock.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "mpi_shim/request/request.hpp"
#include "mpi_shim/rma/target/target.hpp"

namespace mpi_shim::rma {

class Windows;

class Transfer final : public Request, private p2p::Stalled {
 public:
  explicit Transfer(Windows& windows) noexcept;

  /// `there`: the data at the target; its base is an address in the target's memory and is not dereferenced here.
  /// `first`: the packed byte of `there` at which the access begins.  It ends where the first of both ends.
  /// The caller starts the request afterwards.
  void prepare(Direction direction, Target& target, const MemoryHandle& handle, const p2p::Buffer& origin,
               const p2p::Buffer& there, std::uint64_t first = 0);
  /// Instead of the start: posts the access if it is one block.  True: it is over, and the Transfer is back in its
  /// pool.  False: the caller starts the request.  Requires: the origin is contiguous; the Context's lock is held since
  /// before prepare().
  bool try_at_once() noexcept;

 private:
  static constexpr std::size_t kMostInFlight = 8;  // blocks
  struct BlockCompletion : Completion {            // of one block in flight
    Transfer* transfer = nullptr;
    bool busy = false;
  };
  static const Actions kActions;

  void begin_transfer() noexcept;
  void put_away() noexcept;
  void give_back() noexcept;
  /// Posts blocks until all are posted, kMostInFlight are in flight, or an error ends the transfer; false: a post
  /// returned again.  May end the request, and then *this may be gone.
  bool step() noexcept;
  Post post(BlockCompletion& block) noexcept;
  void one_done(BlockCompletion& block) noexcept;
  /// Keeps the first error; blocks that are not posted yet are left out.
  void fail(const Error& why) noexcept;
  /// Ends the request if no block is in flight and none is left to post.
  void end_if_over() noexcept;

  Windows& windows_;
  Direction direction_ = Direction::put;
  Target* target_ = nullptr;
  MemoryHandle handle_;
  p2p::Buffer origin_;
  datatype::DatatypeRef origin_type_;
  datatype::DatatypeRef target_type_;
  datatype::Cursor blocks_;          // at the target, those not posted yet
  std::vector<std::byte> packed_;    // a copy of a noncontiguous origin's bytes; keeps its capacity between uses
  std::byte* contiguous_ = nullptr;  // the bytes of the origin: its own memory or packed_
  std::uint64_t posted_ = 0;         // bytes
  std::uint64_t bytes_ = 0;          // of the whole transfer
  datatype::Piece piece_;            // the block to post next; kept when a post returns again
  std::array<BlockCompletion, kMostInFlight> completions_;
  std::uint32_t in_flight_ = 0;  // blocks
  bool stepping_ = false;        // in step(): a completion inside a post does not enter it again
};

}  // namespace mpi_shim::rma
