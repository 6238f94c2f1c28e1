// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/output_queue.hpp — the data of a connection that the kernel has not taken yet, in order.  It consists of
// pieces.  A piece is a run of bytes copied into the ring, or a reference to the caller's payload (prepare_src()) or to
// the buffer of a fragment.
// The Endpoint owns the queue and the ring's memory.  At most kMaxPieces pieces, and copied bytes up to the size of the
// ring; the number of referenced bytes is not limited.  Only detach() allocates.
// Threads: one caller at a time, as btl::Module.
#pragma once
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "opal/btl/post.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT OutputQueue {
 public:
  static constexpr std::size_t kMaxPieces = 64;
  static constexpr std::size_t kReserve = 64;  ///< bytes of the ring that fits() keeps free, with one piece

  /// What the Endpoint finishes and gives back when a reference has been sent, dropped or detached.
  struct Referenced {
    Completion* completion = nullptr;  ///< of a prepare_src() fragment, to finish; or null
    void* slot = nullptr;              ///< a fragment's buffer, to give back to the module; or null
  };

  OutputQueue() noexcept = default;
  explicit OutputQueue(MutableBytes ring) noexcept : ring_(ring) {}

  [[nodiscard]] bool empty() const noexcept { return pieces_used_ == 0; }
  /// Bytes in the queue, referenced ones included.
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }
  /// True when `copied` bytes and `pieces` pieces can be added and the reserve stays free.  Only a goodbye may use the
  /// reserve.
  [[nodiscard]] bool fits(std::size_t copied, std::size_t pieces = 1) const noexcept {
    return copied + kReserve <= ring_.size() - in_ring_ && pieces_used_ + pieces < kMaxPieces;
  }

  /// Adds a copy of `bytes` at the end: extends the last piece if that is copied, else adds one.
  /// Requires: fits(), or for a goodbye at most kReserve bytes.
  void append(ByteSpan bytes) noexcept;
  /// Adds a reference to `bytes` at the end.  They must stay valid until consume(), clear() or detach() passes `what`
  /// back.  Requires: `bytes` is not empty; fits(0).
  void append_reference(ByteSpan bytes, const Referenced& what) noexcept;

  /// Describes bytes from the front of the queue in at most `most` iovecs.  Returns the number of iovecs.  A copied
  /// piece needs two iovecs if it wraps around the end of the ring.
  [[nodiscard]] std::size_t gather(iovec* vectors, std::size_t most) const noexcept;

  /// Removes `size` <= backlog() bytes at the front.  Calls `finished(const Referenced&)` for each reference whose last
  /// byte is removed, in order.  `finished` runs completions, which may post: it may append to the queue.
  template <class Finished>
  void consume(std::size_t size, Finished&& finished) noexcept {
    backlog_ -= size;
    while (pieces_used_ != 0) {
      Piece& piece = pieces_[first_piece_];
      const std::size_t taken = size < piece.size ? size : piece.size;
      take(piece, taken);
      size -= taken;
      if (piece.size != 0) return;
      const bool reference = piece.memory != nullptr;
      const Referenced what = piece.what;
      first_piece_ = (first_piece_ + 1) % kMaxPieces;
      --pieces_used_;
      if (reference) finished(what);
    }
    read_ = write_ = 0;  // empty: start over, so that few pages are ever touched
  }

  /// Removes all bytes; calls `finished` as consume().
  template <class Finished>
  void clear(Finished&& finished) noexcept {
    consume(backlog_, finished);
  }

  /// Copies all referenced bytes into `storage`, refers to the copies from then on, and calls `finished` for each
  /// reference.  `storage` must stay unchanged until the queue is empty, so a second call needs another `storage`.  For
  /// each copy, consume() and clear() later call `finished` with an empty Referenced.
  /// Errors: no_memory, os; nothing has changed then.
  template <class Finished>
  Result<void> detach(Mapping& storage, Finished&& finished) noexcept {
    std::size_t total = 0;
    for (std::size_t i = 0; i < pieces_used_; ++i) total += piece(i).memory != nullptr ? piece(i).size : 0;
    if (total == 0) return {};
    OPAL_TRY_ASSIGN(storage, Mapping::anonymous(total, false));
    std::byte* place = storage.data();
    for (std::size_t i = 0; i < pieces_used_; ++i) {
      Piece& piece = this->piece(i);
      if (piece.memory == nullptr) continue;
      std::memcpy(place, piece.memory, piece.size);
      piece.memory = place;
      place += piece.size;
      finished(std::exchange(piece.what, Referenced{}));
    }
    return {};
  }

 private:
  struct Piece {
    const std::byte* memory;  // null: the piece is in the ring
    std::size_t size;
    Referenced what;
  };
  [[nodiscard]] Piece& piece(std::size_t index) noexcept { return pieces_[(first_piece_ + index) % kMaxPieces]; }
  [[nodiscard]] Piece& add_piece() noexcept { return pieces_[(first_piece_ + pieces_used_++) % kMaxPieces]; }
  /// Removes `size` bytes at the front of the first piece.
  void take(Piece& piece, std::size_t size) noexcept;

  MutableBytes ring_;
  std::size_t read_ = 0;     // index in the ring of the first copied byte
  std::size_t write_ = 0;    // index in the ring after the last copied byte
  std::size_t in_ring_ = 0;  // bytes in the ring
  std::size_t backlog_ = 0;
  std::array<Piece, kMaxPieces> pieces_{};
  std::size_t first_piece_ = 0;
  std::size_t pieces_used_ = 0;
};

}  // namespace opal::btl::tcp
