// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/output_queue.hpp — what the kernel has not taken yet: bytes copied into a ring, and references to
// memory of the user or of a fragment, in the order in which they go out.
// A view over a ring that its user owns; bounded in bytes and in pieces, allocates nothing.
#pragma once
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "opal/btl/post.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT OutputQueue {
 public:
  static constexpr std::size_t kMaxPieces = 64;
  static constexpr std::size_t kReserve = 64;

  /// Called when a referenced piece is no longer needed.
  struct Referenced {
    Completion* completion = nullptr;  ///< of a prepare_src fragment, or null
    void* slot = nullptr;              ///< a fragment's buffer to take back, or null
  };

  OutputQueue() noexcept = default;
  explicit OutputQueue(MutableBytes ring) noexcept : ring_(ring) {}

  [[nodiscard]] bool empty() const noexcept { return pieces_used_ == 0; }
  /// Bytes waiting, referenced ones included.
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }
  /// True when `copied` more bytes in up to `pieces` pieces can be taken; kReserve bytes are kept for a last word.
  [[nodiscard]] bool fits(std::size_t copied, std::size_t pieces = 1) const noexcept {
    return copied + kReserve <= ring_.size() - in_ring_ && pieces_used_ + pieces < kMaxPieces;
  }

  /// Copies `bytes` behind everything else.  They must fit.
  void append(ByteSpan bytes) noexcept;
  /// Refers to `bytes`, not empty, which must stay until consume() gives `what` back.  One piece must fit.
  void append_reference(ByteSpan bytes, const Referenced& what) noexcept;

  /// Describes the first bytes that wait, up to `most` iovecs; returns how many were used.
  [[nodiscard]] std::size_t gather(iovec* vectors, std::size_t most) const noexcept;

  /// Takes `size` bytes off the front; calls `finished(const Referenced&)` for each reference that ended.
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

  /// Drops everything, with the same calls.
  template <class Finished>
  void clear(Finished&& finished) noexcept {
    consume(backlog_, finished);
  }

  /// Copies what references refer to into `storage` and refers to that instead; the queue then needs no other memory.
  template <class Finished>
  void detach(std::vector<std::byte>& storage, Finished&& finished) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < pieces_used_; ++i) total += piece(i).memory != nullptr ? piece(i).size : 0;
    storage.resize(total);
    std::byte* place = storage.data();
    for (std::size_t i = 0; i < pieces_used_; ++i) {
      Piece& piece = this->piece(i);
      if (piece.memory == nullptr) continue;
      std::memcpy(place, piece.memory, piece.size);
      piece.memory = place;
      place += piece.size;
      finished(std::exchange(piece.what, Referenced{}));
    }
  }

 private:
  struct Piece {
    const std::byte* memory;  // null: in the ring
    std::size_t size;
    Referenced what;
  };
  [[nodiscard]] Piece& piece(std::size_t index) noexcept { return pieces_[(first_piece_ + index) % kMaxPieces]; }
  [[nodiscard]] Piece& add_piece() noexcept { return pieces_[(first_piece_ + pieces_used_++) % kMaxPieces]; }
  void take(Piece& piece, std::size_t size) noexcept;

  MutableBytes ring_;
  std::size_t read_ = 0;  // place in the ring of the first copied byte
  std::size_t write_ = 0;
  std::size_t in_ring_ = 0;
  std::size_t backlog_ = 0;
  std::array<Piece, kMaxPieces> pieces_{};
  std::size_t first_piece_ = 0;
  std::size_t pieces_used_ = 0;
};

}  // namespace opal::btl::tcp
