// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/transfer.hpp — a put or get of any datatypes through the transport's put and get: one for each block at
// the target, some in flight at a time; by way of a packed copy when the origin's bytes do not lie together.
// Owned by the pool of Windows.  Threads: under the Context's lock.
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

  /// `there`: addresses of the target's.  To be started afterwards.
  void prepare(Direction direction, Target& target, const MemoryHandle& handle, const p2p::Buffer& origin,
               const p2p::Buffer& there);

 private:
  static constexpr std::size_t kUnderWay = 8;  // blocks at a time
  struct Slot : Completion {
    Transfer* transfer = nullptr;
    bool busy = false;
  };
  static const Actions kActions;

  void begin_moving() noexcept;
  void put_away() noexcept;
  /// Posts blocks as far as it goes; false: the transport is full.
  bool step() noexcept;
  Post post(Slot& slot) noexcept;
  void one_done(Slot& slot) noexcept;
  void fail(const Error& why) noexcept;
  void end_if_over() noexcept;

  Windows& windows_;
  Direction direction_ = Direction::put;
  Target* target_ = nullptr;
  MemoryHandle handle_;
  p2p::Buffer origin_;
  datatype::DatatypeRef origin_type_;
  datatype::DatatypeRef there_type_;
  datatype::Cursor there_;
  std::vector<std::byte> packed_;  // the origin's bytes when they do not lie together; keeps its capacity
  std::byte* dense_ = nullptr;
  std::uint64_t posted_ = 0;
  std::uint64_t bytes_ = 0;
  datatype::Piece piece_;  // next to be posted
  std::array<Slot, kUnderWay> slots_;
  std::uint32_t busy_ = 0;
  bool stalled_ = false;
  bool stepping_ = false;
};

}  // namespace mpi_shim::rma
