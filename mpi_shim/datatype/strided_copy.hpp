// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/strided_copy.hpp — the inner loops of packing: equal blocks at a stride, to and from dense bytes.
// Addresses are integers: absolute displacements from MPI_BOTTOM have no object to point into.
// Threads: none.  Blocks of the common sizes are copied by loads and stores of that size, inlined.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mpi_shim::datatype {

/// Which way data goes between the dense side and the application's buffer.
enum class Direction : std::uint8_t { pack, unpack };

inline std::byte* at(std::uintptr_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

/// Copies `length` bytes between `dense` and the block at `address`.
template <Direction direction>
inline void copy_block(std::byte* dense, std::uintptr_t address, std::size_t length) noexcept {
  if constexpr (direction == Direction::pack) {
    std::memcpy(dense, at(address), length);
  } else {
    std::memcpy(at(address), dense, length);
  }
}

/// As copy_block, without a call for the few sizes that lists mostly hold.
template <Direction direction>
inline void copy_small_block(std::byte* dense, std::uintptr_t address, std::size_t length) noexcept {
  switch (length) {
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
inline void copy_strided_fixed(std::byte* dense, std::uintptr_t address, std::int64_t stride,
                               std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    copy_block<direction>(dense, address, length);
    dense += length;
    address += static_cast<std::uintptr_t>(stride);
  }
}

/// Copies `count` blocks of `length` bytes, `stride` apart from `address` on, in order.
template <Direction direction>
inline void copy_strided(std::byte* dense, std::uintptr_t address, std::int64_t stride, std::int64_t count,
                         std::size_t length) noexcept {
  switch (length) {
    case 1: return copy_strided_fixed<direction, 1>(dense, address, stride, count);
    case 2: return copy_strided_fixed<direction, 2>(dense, address, stride, count);
    case 4: return copy_strided_fixed<direction, 4>(dense, address, stride, count);
    case 8: return copy_strided_fixed<direction, 8>(dense, address, stride, count);
    case 12: return copy_strided_fixed<direction, 12>(dense, address, stride, count);
    case 16: return copy_strided_fixed<direction, 16>(dense, address, stride, count);
    case 24: return copy_strided_fixed<direction, 24>(dense, address, stride, count);
    case 32: return copy_strided_fixed<direction, 32>(dense, address, stride, count);
    case 48: return copy_strided_fixed<direction, 48>(dense, address, stride, count);
    case 64: return copy_strided_fixed<direction, 64>(dense, address, stride, count);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        copy_block<direction>(dense, address, length);
        dense += length;
        address += static_cast<std::uintptr_t>(stride);
      }
  }
}

}  // namespace mpi_shim::datatype
