// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/output_queue.hpp"

#include <algorithm>
#include <cstring>

namespace opal::btl::tcp {

void OutputQueue::append(ByteSpan bytes) noexcept {
  if (bytes.empty()) return;
  const std::size_t to_end = std::min(bytes.size(), ring_.size() - write_);
  std::memcpy(ring_.data() + write_, bytes.data(), to_end);
  if (to_end != bytes.size()) std::memcpy(ring_.data(), bytes.data() + to_end, bytes.size() - to_end);
  write_ = (write_ + bytes.size()) % ring_.size();
  in_ring_ += bytes.size();
  backlog_ += bytes.size();
  Piece* last = pieces_used_ == 0 ? nullptr : &pieces_[(first_piece_ + pieces_used_ - 1) % kMaxPieces];
  if (last != nullptr && last->memory == nullptr) {
    last->size += bytes.size();
  } else {
    add_piece() = {nullptr, bytes.size(), {}};
  }
}

void OutputQueue::append_reference(ByteSpan bytes, const Referenced& what) noexcept {
  backlog_ += bytes.size();
  add_piece() = {bytes.data(), bytes.size(), what};
}

std::size_t OutputQueue::gather(iovec* vectors, std::size_t most) const noexcept {
  std::size_t used = 0;
  std::size_t place = read_;
  for (std::size_t i = 0; i < pieces_used_ && used < most; ++i) {
    const Piece& piece = pieces_[(first_piece_ + i) % kMaxPieces];
    if (piece.memory != nullptr) {
      vectors[used++] = {const_cast<std::byte*>(piece.memory), piece.size};
      continue;
    }
    const std::size_t to_end = std::min(piece.size, ring_.size() - place);
    vectors[used++] = {ring_.data() + place, to_end};
    if (to_end != piece.size) {
      if (used == most) return used;
      vectors[used++] = {ring_.data(), piece.size - to_end};
    }
    place = (place + piece.size) % ring_.size();
  }
  return used;
}

void OutputQueue::take(Piece& piece, std::size_t size) noexcept {
  piece.size -= size;
  if (piece.memory != nullptr) {
    piece.memory += size;
    return;
  }
  read_ = (read_ + size) % ring_.size();
  in_ring_ -= size;
}

}  // namespace opal::btl::tcp
