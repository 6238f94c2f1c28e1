// SPDX-License-Identifier: Apache-2.0
// opal/core/short_copy.hpp — memcpy that stays inline for the few bytes of which most messages consist.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "opal/core/bytes.hpp"

namespace opal {

inline constexpr std::size_t kShortCopy = 16;

namespace detail {

/// The first and the last bytes of what is copied, of which some may be the same.
template <class First, class Last>
void move_ends(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  First first;
  Last last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + size - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + size - sizeof last, &last, sizeof last);
}

}  // namespace detail

/// Copies `size` <= kShortCopy bytes by two moves and without a call; the ranges may overlap.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  using detail::move_ends;
  if (size >= 8) {
    // A header of three words that was just written: a load across two stores would wait until both have left the core.
    if (size == 12) return move_ends<std::uint64_t, std::uint32_t>(to, from, size);
    move_ends<std::uint64_t, std::uint64_t>(to, from, size);
  } else if (size >= 4) {
    move_ends<std::uint32_t, std::uint32_t>(to, from, size);
  } else if (size >= 2) {
    move_ends<std::uint16_t, std::uint16_t>(to, from, size);
  } else if (size == 1) {
    *to = *from;
  }
}

/// Copies `bytes` to `to`, which has room; the ranges do not overlap.
inline void copy_to(std::byte* to, ByteSpan bytes) noexcept {
  if (bytes.size() <= kShortCopy) [[likely]]
    return copy_short(to, bytes.data(), bytes.size());
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace opal
