// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/cursor.hpp"

#include <algorithm>

#include "opal/gpu/copies/copy.hpp"

namespace mpi_shim::datatype {
namespace {

constexpr std::ptrdiff_t kFewBlocks = 16;  // lists of at most 16 blocks are copied by copy_repeated_list()

/// The repetition of a body of `bytes` bytes at byte `position`, which becomes the position in that repetition.
std::int64_t find_repetition(std::int64_t& position, std::int64_t bytes) noexcept {
  if (position < bytes) return 0;  // the most frequent case needs no division
  const std::int64_t repetition = position / bytes;
  position -= repetition * bytes;
  return repetition;
}

}  // namespace

opal::Result<void> Cursor::start(const Datatype& type, void* buffer, std::int64_t count) {
  if (count < 0)
    return opal::Error{opal::Errc::invalid_argument, 0, "a count below 0", static_cast<std::uint64_t>(count)};
  const auto bytes = type.packed_size(count);
  if (!bytes) return opal::Error{opal::Errc::limit_reached, 0, "count * size of a datatype"};
  layout_ = &type.layout();
  buffer_ = reinterpret_cast<std::uintptr_t>(buffer);
  size_ = *bytes;
  set_whole(count, type.extent());
  return {};
}

void Cursor::start(const Layout& layout) {
  layout_ = &layout;
  buffer_ = 0;
  size_ = layout.bytes;
  set_whole(1, 0);
}

/// Sets whole_ to `count` repetitions of the layout, and the position to its first byte.
void Cursor::set_whole(std::int64_t count, std::int64_t stride) {
  const Item* only = layout_->only_item();
  if (only != nullptr) whole_ = *only;
  if (only == nullptr || !repeat_in_place(whole_, std::max<std::int64_t>(count, 1), stride)) {
    whole_ = Item{};
    whole_.body = Body::sequence;
    whole_.first = layout_->root_first;
    whole_.last = layout_->root_last;
    whole_.bytes = layout_->bytes;
    whole_.count = count;
    whole_.stride = stride;
  }
  const std::size_t levels = layout_->depth + 1;
  if (levels <= kInlineLevels) {
    frames_ = inline_frames_.data();
  } else {
    deep_frames_.resize(levels);
    frames_ = deep_frames_.data();
  }
  seek(0);
  on_gpu_.reset();
  failure_ = {};
}

bool Cursor::on_gpu() noexcept {
  if (!opal::gpu::active()) [[likely]]
    return false;
  if (!on_gpu_) {
    const std::int64_t here = position_;
    on_gpu_ = !done() && !opal::gpu::is_host(next_piece(1).data);
    seek(here);
  }
  return *on_gpu_;
}

std::uintptr_t Cursor::repetition(const Frame& frame) noexcept {
  // Modulo 2^64, so that negative offsets and strides work on addresses.
  return frame.base + static_cast<std::uintptr_t>(frame.item->offset) +
         static_cast<std::uintptr_t>(frame.iteration) * static_cast<std::uintptr_t>(frame.item->stride);
}

void Cursor::seek(std::int64_t position) noexcept {
  position_ = position;
  if (position >= size_) return;  // at the end no function reads the frames
  top_ = 0;
  within_ = position;
  frames_[0] = {&whole_, &whole_ + 1, find_repetition(within_, whole_.bytes), buffer_};
  while (frames_[top_].item->body == Body::sequence) {
    const Frame& outer = frames_[top_];
    const Item* first = layout_->items.data() + outer.item->first;
    const Item* end = layout_->items.data() + outer.item->last;
    const Item* item =
        std::upper_bound(first, end, within_, [](std::int64_t p, const Item& i) { return p < i.begin; }) - 1;
    within_ -= item->begin;
    frames_[top_ + 1] = {item, end, find_repetition(within_, item->bytes), repetition(outer)};
    ++top_;
  }
  const Item& item = *frames_[top_].item;
  if (item.body == Body::list) {
    const Block* first = layout_->blocks.data() + item.first;
    const Block* end = layout_->blocks.data() + item.last;
    const Block* block =
        std::upper_bound(first, end, within_, [](std::int64_t p, const Block& b) { return p < b.begin; }) - 1;
    within_ -= block->begin;
    block_ = static_cast<std::uint32_t>(block - layout_->blocks.data());
  }
}

// Descends from the item at the top frame to the first leaf (block or list) in it.
void Cursor::descend() noexcept {
  while (frames_[top_].item->body == Body::sequence) {
    const Frame& outer = frames_[top_];
    const Item* items = layout_->items.data();
    frames_[top_ + 1] = {items + outer.item->first, items + outer.item->last, 0, repetition(outer)};
    ++top_;
  }
  block_ = frames_[top_].item->first;
}

// Moves from a leaf, all of whose repetitions are done, to the next leaf, if there is one.
void Cursor::leave_item() noexcept {
  for (;;) {
    Frame& frame = frames_[top_];
    ++frame.item;
    frame.iteration = 0;
    if (frame.item != frame.end) return descend();
    if (top_ == 0) return;
    --top_;
    if (++frames_[top_].iteration < frames_[top_].item->count) return descend();
  }
}

template <Direction direction>
std::size_t Cursor::transfer_vector(Frame& frame, std::byte* dense, std::size_t length) noexcept {
  const Item& item = *frame.item;
  const auto block = static_cast<std::size_t>(item.bytes);
  std::uintptr_t address = repetition(frame);
  std::size_t moved = 0;
  if (within_ != 0) {
    moved = std::min(length, block - static_cast<std::size_t>(within_));
    copy_block<direction>(dense, address + static_cast<std::uintptr_t>(within_), moved);
    within_ += static_cast<std::int64_t>(moved);
    if (within_ != item.bytes) return moved;
    within_ = 0;
    ++frame.iteration;
    address += static_cast<std::uintptr_t>(item.stride);
  }
  const std::int64_t left = item.count - frame.iteration;
  if (left > 1) {
    const std::int64_t full = std::min(left, static_cast<std::int64_t>((length - moved) / block));
    copy_strided<direction>(dense + moved, block, address, item.stride, full, block);
    moved += static_cast<std::size_t>(full) * block;
    frame.iteration += full;
    address += static_cast<std::uintptr_t>(full) * static_cast<std::uintptr_t>(item.stride);
  } else if (left == 1 && length - moved >= block) {
    copy_block<direction>(dense + moved, address, block);
    moved += block;
    ++frame.iteration;
  }
  if (frame.iteration != item.count && moved != length) {
    copy_block<direction>(dense + moved, address, length - moved);
    within_ = static_cast<std::int64_t>(length - moved);
    moved = length;
  }
  return moved;
}

template <Direction direction>
std::size_t Cursor::transfer_list(Frame& frame, std::byte* dense, std::size_t length) noexcept {
  // Changing state is in local variables, since the compiler must assume that stores to `dense` change members.
  const Item& item = *frame.item;
  const Block* const first = layout_->blocks.data() + item.first;
  const Block* const last = layout_->blocks.data() + item.last;
  const auto whole = static_cast<std::size_t>(item.bytes);
  const auto each = static_cast<std::size_t>(item.each);
  const Block* block = layout_->blocks.data() + block_;
  auto behind = static_cast<std::size_t>(within_);
  std::int64_t iteration = frame.iteration;
  std::uintptr_t address = repetition(frame);
  std::size_t moved = 0;
  while (moved != length && iteration != item.count) {
    const std::size_t room = length - moved;
    if (behind == 0 && block == first && last - first <= kFewBlocks && room >= 2 * whole &&
        item.count - iteration >= 2) {
      const std::int64_t full = std::min(item.count - iteration, static_cast<std::int64_t>(room / whole));
      copy_repeated_list<direction>(dense + moved, address, item.stride, full, whole, first, last);
      moved += static_cast<std::size_t>(full) * whole;
      iteration += full;
      address += static_cast<std::uintptr_t>(full) * static_cast<std::uintptr_t>(item.stride);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(block[1].begin - block->begin);
    if (behind != 0 || room < bytes) {  // a partial block
      const std::size_t part = std::min(room, bytes - behind);
      copy_block<direction>(dense + moved, address + static_cast<std::uintptr_t>(block->offset) + behind, part);
      moved += part;
      behind += part;
      if (behind != bytes) break;
      behind = 0;
      ++block;
    } else if (each != 0) {
      const std::size_t blocks = std::min(static_cast<std::size_t>(last - block), room / each);
      copy_listed<direction>(dense + moved, address, block, blocks, each);
      moved += blocks * each;
      block += blocks;
    } else if (static_cast<std::size_t>(last->begin - block->begin) <= room) {
      copy_list<direction>(dense + moved, address, block, last);
      moved += whole - static_cast<std::size_t>(block->begin);
      block = last;
    } else {
      copy_small_block<direction>(dense + moved, address + static_cast<std::uintptr_t>(block->offset), bytes);
      moved += bytes;
      ++block;
    }
    if (block == last) {
      block = first;
      ++iteration;
      address += static_cast<std::uintptr_t>(item.stride);
    }
  }
  block_ = static_cast<std::uint32_t>(block - layout_->blocks.data());
  within_ = static_cast<std::int64_t>(behind);
  frame.iteration = iteration;
  return moved;
}

template <Direction direction>
std::size_t Cursor::transfer(std::byte* dense, std::size_t length) noexcept {
  length = std::min(length, static_cast<std::size_t>(remaining()));
  std::size_t moved = 0;
  while (moved != length) {
    Frame& frame = frames_[top_];
    moved += frame.item->body == Body::block ? transfer_vector<direction>(frame, dense + moved, length - moved)
                                             : transfer_list<direction>(frame, dense + moved, length - moved);
    if (frame.iteration == frame.item->count) leave_item();
  }
  position_ += static_cast<std::int64_t>(length);
  return length;
}

/// At the first byte of a repeated block: copies its repetitions, up to `length` bytes, by one call of the driver.
/// Returns the number of bytes; 0: the cursor is elsewhere, or there is only one.
template <Direction direction>
std::size_t Cursor::transfer_gpu_blocks(std::byte* dense, std::size_t length) noexcept {
  if (done()) return 0;
  Frame& frame = frames_[top_];
  const Item& item = *frame.item;
  const auto size = static_cast<std::size_t>(item.bytes);
  if (item.body != Body::block || within_ != 0 || length < 2 * size) return 0;
  const std::int64_t count = std::min(item.count - frame.iteration, static_cast<std::int64_t>(length / size));
  if (count < 2) return 0;
  std::byte* const first = at(repetition(frame));
  const opal::gpu::Blocks blocks{size, static_cast<std::size_t>(count)};
  const auto copied = direction == Direction::pack
                          ? opal::gpu::copy_blocks(dense, item.bytes, first, item.stride, blocks)
                          : opal::gpu::copy_blocks(first, item.stride, dense, item.bytes, blocks);
  if (!copied && failure_.code == opal::Errc{}) failure_ = copied.error();
  frame.iteration += count;
  position_ += count * item.bytes;
  if (frame.iteration == item.count) leave_item();
  return size * static_cast<std::size_t>(count);
}

/// Copies repeated blocks together, and each other piece with one gpu::copy(), which is slow for small pieces.
template <Direction direction>
std::size_t Cursor::transfer_gpu(std::byte* dense, std::size_t length) noexcept {
  std::size_t moved = 0;
  while (moved != length && !done()) {
    if (const std::size_t blocks = transfer_gpu_blocks<direction>(dense + moved, length - moved); blocks != 0) {
      moved += blocks;
      continue;
    }
    const Piece piece = next_piece(length - moved);
    const auto copied = direction == Direction::pack ? opal::gpu::copy(dense + moved, piece.data, piece.bytes)
                                                     : opal::gpu::copy(piece.data, dense + moved, piece.bytes);
    if (!copied && failure_.code == opal::Errc{}) failure_ = copied.error();
    moved += piece.bytes;
  }
  return moved;
}

std::size_t Cursor::pack(opal::MutableBytes to) noexcept {
  if (on_gpu() || !opal::gpu::is_host(to.data())) [[unlikely]]
    return transfer_gpu<Direction::pack>(to.data(), to.size());
  return transfer<Direction::pack>(to.data(), to.size());
}

std::size_t Cursor::unpack(opal::ByteSpan from) noexcept {
  // const_cast: the templates serve both directions, and unpack only reads the dense side.
  if (on_gpu() || !opal::gpu::is_host(from.data())) [[unlikely]]
    return transfer_gpu<Direction::unpack>(const_cast<std::byte*>(from.data()), from.size());
  return transfer<Direction::unpack>(const_cast<std::byte*>(from.data()), from.size());
}

Piece Cursor::next_piece(std::size_t limit) noexcept {
  if (done() || limit == 0) return {};
  Frame& frame = frames_[top_];
  const Item& item = *frame.item;
  const bool is_list = item.body == Body::list;
  const Block* const block = is_list ? &layout_->blocks[block_] : nullptr;
  const std::int64_t offset = is_list ? block->offset : 0;
  const std::int64_t bytes = is_list ? block[1].begin - block->begin : item.bytes;
  const std::uintptr_t address = repetition(frame) + static_cast<std::uintptr_t>(offset + within_);
  const std::size_t length = std::min(limit, static_cast<std::size_t>(bytes - within_));
  within_ += static_cast<std::int64_t>(length);
  position_ += static_cast<std::int64_t>(length);
  if (within_ == bytes) {
    within_ = 0;
    if (!is_list || ++block_ == item.last) {
      block_ = item.first;
      if (++frame.iteration == item.count) leave_item();
    }
  }
  return {at(address), length};
}

}  // namespace mpi_shim::datatype
