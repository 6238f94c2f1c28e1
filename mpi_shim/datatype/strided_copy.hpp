// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/strided_copy.hpp — the inner loops of pack and unpack: copies between dense (packed) bytes and
// blocks at a stride or in a list, all in host memory.  Addresses are integers, since absolute displacements from
// MPI_BOTTOM point into no object.  Blocks of common sizes are copied by inlined loads and stores.  Threads: no shared
// state.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

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

/// Calls use(length), for the common lengths with a constant, so that the copies in `use` are inlined.
template <class Use>
[[gnu::always_inline]] inline void with_length(std::size_t length, Use&& use) noexcept {
  switch (length) {
    case 1: return use(std::integral_constant<std::size_t, 1>{});
    case 2: return use(std::integral_constant<std::size_t, 2>{});
    case 4: return use(std::integral_constant<std::size_t, 4>{});
    case 8: return use(std::integral_constant<std::size_t, 8>{});
    case 12: return use(std::integral_constant<std::size_t, 12>{});
    case 16: return use(std::integral_constant<std::size_t, 16>{});
    case 24: return use(std::integral_constant<std::size_t, 24>{});
    case 32: return use(std::integral_constant<std::size_t, 32>{});
    case 48: return use(std::integral_constant<std::size_t, 48>{});
    case 64: return use(std::integral_constant<std::size_t, 64>{});
    default: return use(length);
  }
}

/// As copy_block(), inlined for the common lengths.
template <Direction direction>
inline void copy_small_block(std::byte* dense, std::uintptr_t address, std::size_t length) noexcept {
  with_length(length, [&](auto bytes) { copy_block<direction>(dense, address, bytes); });
}

/// Copies `count` blocks of `length` bytes: `stride` bytes apart from `address` on, `dense_step` bytes apart in
/// `dense`.
template <Direction direction>
inline void copy_strided(std::byte* dense, std::size_t dense_step, std::uintptr_t address, std::int64_t stride,
                         std::int64_t count, std::size_t length) noexcept {
  with_length(length, [=](auto bytes) mutable {
    for (std::int64_t i = 0; i < count; ++i) {
      copy_block<direction>(dense, address, bytes);
      dense += dense_step;
      address += static_cast<std::uintptr_t>(stride);
    }
  });
}

/// Copies `count` blocks of `length` bytes each; their offsets are relative to `address`.
template <Direction direction>
inline void copy_listed(std::byte* dense, std::uintptr_t address, const Block* blocks, std::size_t count,
                        std::size_t length) noexcept {
  with_length(length, [=](auto bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      copy_block<direction>(dense + i * bytes, address + static_cast<std::uintptr_t>(blocks[i].offset), bytes);
    }
  });
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
