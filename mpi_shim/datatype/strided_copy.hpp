// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/strided_copy.hpp — the inner loops of packing: blocks at a stride or in a list, to and from dense
// bytes. Addresses are integers: absolute displacements from MPI_BOTTOM have no object to point into. Threads: none.
// Blocks of the common sizes are copied by loads and stores of that size, inlined.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpi_shim/datatype/layout.hpp"
#include "opal/core/copy.hpp"

namespace mpi_shim::datatype {

/// Which way data goes between the dense side and the application's buffer.
enum class Direction : std::uint8_t { pack, unpack };

inline std::byte* at(std::uintptr_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

/// Copies `length` bytes between `dense` and the block at `address`.
template <Direction direction>
inline void copy_block(std::byte* dense, std::uintptr_t address, std::size_t length) noexcept {
  if constexpr (direction == Direction::pack) {
    opal::copy_bytes(dense, at(address), length);
  } else {
    opal::copy_bytes(at(address), dense, length);
  }
}

/// As copy_block, without a call for the few sizes that lists mostly hold.
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

/// Copies `count` blocks of `length` bytes, `stride` apart from `address` on and `dense_step` apart in the dense bytes.
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

/// Copies `count` blocks of `length` bytes each, wherever they lie, in order.
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

/// Copies all of the blocks [first, last), of any lengths; `last` is the sentinel of their list.
template <Direction direction>
inline void copy_list(std::byte* dense, std::uintptr_t address, const Block* first, const Block* last) noexcept {
  for (; first != last; ++first) {
    const auto length = static_cast<std::size_t>(first[1].begin - first->begin);
    copy_small_block<direction>(dense, address + static_cast<std::uintptr_t>(first->offset), length);
    dense += length;
  }
}

/// Copies `count` repetitions of the few blocks [first, last), `stride` apart and `bytes` long together: block by block
/// rather than repetition by repetition, in tiles that stay in the cache, so that the inner loop is one of fixed size.
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
