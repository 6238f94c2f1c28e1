// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/cursor.hpp — walks through `count` instances of a datatype in a buffer, in message order, and
// packs, unpacks or names the blocks from any byte on.  A message of many fragments keeps one cursor. Owned by a
// request; refers to the datatype and the buffer, which outlive the walk. Threads: one at a time.  Invariants: start()
// may allocate (for types nested deeper than kInlineLevels), nothing else does.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi_shim/datatype/datatype.hpp"
#include "mpi_shim/datatype/strided_copy.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// A contiguous piece of the application's buffer.
struct Piece {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

class Cursor {
 public:
  Cursor() = default;
  Cursor(const Cursor&) = delete;  // frames point into it
  Cursor& operator=(const Cursor&) = delete;

  /// Stands before the first byte of `count` instances of `type` at `buffer` (null for absolute displacements).
  /// Errors: invalid_argument (negative count), limit_reached (more than 63 bits of data or address range).
  opal::Result<void> start(const Datatype& type, void* buffer, std::int64_t count);
  /// The same for a buffer that is only packed from.
  opal::Result<void> start(const Datatype& type, const void* buffer, std::int64_t count) {
    return start(type, const_cast<void*>(buffer), count);  // pack() and pieces to be read never write through it
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }          ///< data bytes in all
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }  ///< data bytes behind the cursor
  [[nodiscard]] std::int64_t remaining() const noexcept { return size_ - position_; }
  [[nodiscard]] bool done() const noexcept { return position_ == size_; }

  /// Moves to any byte, 0 <= position <= size(); in time of the type's depth, whatever the distance.
  void seek(std::int64_t position) noexcept;

  /// Copies the next bytes from the buffer to `to`, either maybe the GPU's; how many: min(to.size(), remaining()).
  std::size_t pack(opal::MutableBytes to) noexcept;

  /// Copies the next bytes from `from` to the buffer, either maybe the GPU's; how many: min(from.size(), remaining()).
  std::size_t unpack(opal::ByteSpan from) noexcept;

  /// What went wrong with GPU memory since start(): the bytes that pack() or unpack() should have moved are undefined.
  /// Host memory: nothing ever.
  [[nodiscard]] const opal::Error& failure() const noexcept { return failure_; }

  /// Names the next contiguous piece of at most `limit` bytes and moves behind it; empty when done.
  Piece next_piece(std::size_t limit) noexcept;

 private:
  static constexpr std::size_t kInlineLevels = 6;

  struct Frame {
    const Item* item;
    const Item* end;
    std::int64_t iteration;
    std::uintptr_t base;  // address to which the item's offset is relative
  };

  template <Direction direction>
  std::size_t transfer(std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_gpu(std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_vector(Frame& frame, std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_list(Frame& frame, std::byte* dense, std::size_t length) noexcept;
  void descend() noexcept;
  void leave_item() noexcept;
  [[nodiscard]] static std::uintptr_t repetition(const Frame& frame) noexcept;

  const Layout* layout_ = nullptr;
  Item whole_;               // all instances, as one item over the type's layout
  Frame* frames_ = nullptr;  // one per level of items
  std::size_t top_ = 0;
  std::uint32_t block_ = 0;  // in a list: the block at the cursor
  std::int64_t within_ = 0;  // bytes behind the cursor in its block
  std::int64_t position_ = 0;
  std::int64_t size_ = 0;
  std::uintptr_t buffer_ = 0;
  bool on_gpu_ = false;  // the buffer's memory, of which the first piece tells
  opal::Error failure_{};
  std::array<Frame, kInlineLevels> inline_frames_;
  std::vector<Frame> deep_frames_;
};

}  // namespace mpi_shim::datatype
