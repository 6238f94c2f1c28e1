// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/strided_copy.hpp — the inner loops of pack and unpack: copies between dense (packed) bytes and
// blocks at a stride or in a list, all in host memory.  Addresses are integers, since absolute displacements from
// MPI_BOTTOM point into no object.  Blocks of common sizes are copied by inlined loads and stores.  Threads: no shared
// state.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpi_shim/datatype/layout.hpp"
#include "opal/core/copy.hpp"

namespace mpi_shim::datatype {

/// pack: from the application's buffer to the dense bytes; unpack: back.
enum class Direction : std::uint8_t { pack, unpack };

inline std::byte* at(std::uintptr_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

/// Copies `length` bytes between `dense` and the block at `address`.
template <Direction direction>
inline void copy_block(std::byte* dense, std::uintptr_t address, std::size_t length) noexcept {
  if constexpr (direction == Direction::pack) {
    opal::copy_host_memory(dense, at(address), length);
  } else {
    opal::copy_host_memory(at(address), dense, length);
  }
}

/// As copy_block(), inlined for the lengths that are common in lists.
template <Direction direction>
inline void copy_small_block(std::byte* dense, std::uintptr_t address, std::size_t length) noexcept {
  switch (length) {
    case 1: return copy_block<direction>(dense, address, 1);
    case 2: return copy_block<direction>(dense, address, 2);
    case 4: return copy_block<direction>(dense, address, 4);
    case 8: return copy_block<direction>(dense, address, 8);
    case 12: return copy_block<direction>(dense, address, 12);
    case 16: return copy_block<direction>(dense, address, 16);
    case 24: return copy_block<direction>(dense, address, 24);
    case 32: return copy_block<direction>(dense, address, 32);
    default: return copy_block<direction>(dense, address, length);
  }
}

template <Direction direction, std::size_t length>
inline void copy_strided_fixed(std::byte* dense, std::size_t dense_step, std::uintptr_t address, std::int64_t stride,
                               std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    copy_block<direction>(dense, address, length);
    dense += dense_step;
    address += static_cast<std::uintptr_t>(stride);
  }
}

/// Copies `count` blocks of `length` bytes: `stride` bytes apart from `address` on, `dense_step` bytes apart in
/// `dense`.
template <Direction direction>
inline void copy_strided(std::byte* dense, std::size_t dense_step, std::uintptr_t address, std::int64_t stride,
                         std::int64_t count, std::size_t length) noexcept {
  switch (length) {
    case 1: return copy_strided_fixed<direction, 1>(dense, dense_step, address, stride, count);
    case 2: return copy_strided_fixed<direction, 2>(dense, dense_step, address, stride, count);
    case 4: return copy_strided_fixed<direction, 4>(dense, dense_step, address, stride, count);
    case 8: return copy_strided_fixed<direction, 8>(dense, dense_step, address, stride, count);
    case 12: return copy_strided_fixed<direction, 12>(dense, dense_step, address, stride, count);
    case 16: return copy_strided_fixed<direction, 16>(dense, dense_step, address, stride, count);
    case 24: return copy_strided_fixed<direction, 24>(dense, dense_step, address, stride, count);
    case 32: return copy_strided_fixed<direction, 32>(dense, dense_step, address, stride, count);
    case 48: return copy_strided_fixed<direction, 48>(dense, dense_step, address, stride, count);
    case 64: return copy_strided_fixed<direction, 64>(dense, dense_step, address, stride, count);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        copy_block<direction>(dense, address, length);
        dense += dense_step;
        address += static_cast<std::uintptr_t>(stride);
      }
  }
}

template <Direction direction, std::size_t length>
inline void copy_listed_fixed(std::byte* dense, std::uintptr_t address, const Block* blocks,
                              std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    copy_block<direction>(dense + i * length, address + static_cast<std::uintptr_t>(blocks[i].offset), length);
  }
}

/// Copies `count` blocks of `length` bytes each; their offsets are relative to `address`.
template <Direction direction>
inline void copy_listed(std::byte* dense, std::uintptr_t address, const Block* blocks, std::size_t count,
                        std::size_t length) noexcept {
  switch (length) {
    case 1: return copy_listed_fixed<direction, 1>(dense, address, blocks, count);
    case 2: return copy_listed_fixed<direction, 2>(dense, address, blocks, count);
    case 4: return copy_listed_fixed<direction, 4>(dense, address, blocks, count);
    case 8: return copy_listed_fixed<direction, 8>(dense, address, blocks, count);
    case 12: return copy_listed_fixed<direction, 12>(dense, address, blocks, count);
    case 16: return copy_listed_fixed<direction, 16>(dense, address, blocks, count);
    case 24: return copy_listed_fixed<direction, 24>(dense, address, blocks, count);
    case 32: return copy_listed_fixed<direction, 32>(dense, address, blocks, count);
    default:
      for (std::size_t i = 0; i < count; ++i) {
        copy_block<direction>(dense + i * length, address + static_cast<std::uintptr_t>(blocks[i].offset), length);
      }
  }
}

/// Copies the blocks [first, last), of any lengths, up to the end of their list: `last` is its sentinel.
template <Direction direction>
inline void copy_list(std::byte* dense, std::uintptr_t address, const Block* first, const Block* last) noexcept {
  for (; first != last; ++first) {
    const auto length = static_cast<std::size_t>(first[1].begin - first->begin);
    copy_small_block<direction>(dense, address + static_cast<std::uintptr_t>(first->offset), length);
    dense += length;
  }
}

/// Copies `count` repetitions of a short list of blocks [first, last), `stride` bytes apart, with `bytes` packed bytes
/// per repetition.  The outer loop is over the blocks and the inner one over kTile repetitions, which stay in the
/// cache, so that all copies of an inner loop have one length.
template <Direction direction>
inline void copy_repeated_list(std::byte* dense, std::uintptr_t address, std::int64_t stride, std::int64_t count,
                               std::size_t bytes, const Block* first, const Block* last) noexcept {
  constexpr std::int64_t kTile = 32;
  while (count > 0) {
    const std::int64_t tile = count < kTile ? count : kTile;
    for (const Block* block = first; block != last; ++block) {
      copy_strided<direction>(dense + block->begin, bytes, address + static_cast<std::uintptr_t>(block->offset), stride,
                              tile, static_cast<std::size_t>(block[1].begin - block->begin));
    }
    dense += static_cast<std::size_t>(tile) * bytes;
    address += static_cast<std::uintptr_t>(tile) * static_cast<std::uintptr_t>(stride);
    count -= tile;
  }
}

}  // namespace mpi_shim::datatype
