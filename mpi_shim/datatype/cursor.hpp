// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/cursor.hpp — a position in the data of `count` instances of a datatype in a buffer.  The Cursor
// packs, unpacks or lists the blocks from its position on, in the order of the typemap; it can move to any byte.  A
// message that travels in fragments keeps one Cursor.
// Borrows the datatype and the buffer, which outlive the use of the Cursor.  Threads: one at a time.
// Only start() allocates, and only for types nested deeper than kInlineLevels.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  Cursor(const Cursor&) = delete;  // frames_ points into the object
  Cursor& operator=(const Cursor&) = delete;

  /// Sets the cursor to the first byte of `count` instances of `type` at `buffer` (null for absolute displacements).
  /// Required before every other function; may be called again.  May throw std::bad_alloc.
  /// Errors: invalid_argument (negative count), limit_reached (more than 63 bits of data or address range).
  opal::Result<void> start(const Datatype& type, void* buffer, std::int64_t count);
  /// As above, for a buffer that the caller only reads: unpack() is not allowed, pieces must not be written.
  opal::Result<void> start(const Datatype& type, const void* buffer, std::int64_t count) {
    return start(type, const_cast<void*>(buffer), count);  // pack() does not write to it
  }

  /// As above, for one instance of a layout of absolute addresses, which outlives the use of the Cursor.
  void start(const Layout& layout);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }          ///< data bytes of all instances
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }  ///< data bytes before the cursor
  [[nodiscard]] std::int64_t remaining() const noexcept { return size_ - position_; }
  [[nodiscard]] bool done() const noexcept { return position_ == size_; }

  /// Moves to a byte of the packed data.  Requires: 0 <= position <= size().  The time depends on the type, not on the
  /// distance: a binary search per level.
  void seek(std::int64_t position) noexcept;

  /// Copies the next min(to.size(), remaining()) bytes from the buffer to `to` and moves past them.  Both may be GPU
  /// memory.  Returns the number of bytes.
  std::size_t pack(opal::MutableBytes to) noexcept;

  /// Copies min(from.size(), remaining()) bytes from `from` to the buffer, as pack().
  std::size_t unpack(opal::ByteSpan from) noexcept;

  /// Whether the piece at the position of the first call since start() is in GPU memory; assumed of the whole buffer.
  [[nodiscard]] bool on_gpu() noexcept;

  /// The first error of a GPU copy since start(); code 0 if none.  After an error the bytes that pack() or unpack() had
  /// to copy are undefined.  Copies within host memory do not fail.
  [[nodiscard]] const opal::Error& failure() const noexcept { return failure_; }

  /// Returns the next contiguous piece of at most `limit` bytes and moves past it; an empty piece at the end.
  Piece next_piece(std::size_t limit) noexcept;

 private:
  static constexpr std::size_t kInlineLevels = 6;

  struct Frame {
    const Item* item;
    const Item* end;
    std::int64_t iteration;  // the repetition of the item at the cursor
    std::uintptr_t base;     // address to which the item's offset is relative
  };

  void set_whole(std::int64_t count, std::int64_t stride);
  template <Direction direction>
  std::size_t transfer(std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_gpu(std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_gpu_blocks(std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_vector(Frame& frame, std::byte* dense, std::size_t length) noexcept;
  template <Direction direction>
  std::size_t transfer_list(Frame& frame, std::byte* dense, std::size_t length) noexcept;
  void descend() noexcept;
  void leave_item() noexcept;
  [[nodiscard]] static std::uintptr_t repetition(const Frame& frame) noexcept;

  const Layout* layout_ = nullptr;
  Item whole_;               // all instances, as one item over the type's layout
  Frame* frames_ = nullptr;  // one per level of items; in inline_frames_ or deep_frames_
  std::size_t top_ = 0;      // the innermost level at the cursor
  std::uint32_t block_ = 0;  // in a list: index of the block at the cursor
  std::int64_t within_ = 0;  // bytes before the cursor in its block
  std::int64_t position_ = 0;
  std::int64_t size_ = 0;
  std::uintptr_t buffer_ = 0;
  std::optional<bool> on_gpu_;  // see on_gpu(); empty: not known yet
  opal::Error failure_{};
  std::array<Frame, kInlineLevels> inline_frames_;
  std::vector<Frame> deep_frames_;
};

}  // namespace mpi_shim::datatype
