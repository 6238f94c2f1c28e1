// SPDX-License-Identifier: Apache-2.0
// opal/core/copy.hpp — copies of host memory: inline for the few bytes of which most messages consist, memmove() in
// between, and for kVectorCopy bytes and more a loop whose speed does not depend on where the two ranges lie.
//
// Why not memmove() alone: on processors with fast short `rep movsb` (FSRM), glibc copies a few KiB to about 1 MiB by
// that instruction.  On AMD Zen 3 and 4 it falls to 1.5-3.6 GB/s where the target's offset in its page is 1-15 bytes
// above the source's (on some of them also 16-63), against 50-100 GB/s elsewhere.  malloc() returns large blocks at
// offset 16.
//
// Threads: pure functions.  Ranges may overlap.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal {

/// Up to as many bytes are copied by two moves and without a call.
inline constexpr std::size_t kShortCopy = 16;

/// From as many bytes on the vector loop copies; below, no memmove() known uses `rep movsb`.
inline constexpr std::size_t kVectorCopy = 2048;

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

using LongCopy = void (*)(void* to, const void* from, std::size_t size) noexcept;

/// What copies kVectorCopy bytes and more on this processor; the first call chooses it.
OPAL_EXPORT extern std::atomic<LongCopy> long_copy;

}  // namespace detail

/// Copies `size` <= kShortCopy bytes.
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

/// Copies `size` bytes, of which there may be many.
inline void copy_bytes(void* to, const void* from, std::size_t size) noexcept {
  if (size >= kVectorCopy) return detail::long_copy.load(std::memory_order_relaxed)(to, from, size);
  if (size != 0) std::memmove(to, from, size);
}

/// Copies `bytes` to `to`, which has room.
inline void copy_to(std::byte* to, ByteSpan bytes) noexcept {
  if (bytes.size() <= kShortCopy) [[likely]]
    return copy_short(to, bytes.data(), bytes.size());
  copy_bytes(to, bytes.data(), bytes.size());
}

/// True when `rep movsb`, by which the kernel copies between processes, is slow for these two addresses on this
/// processor.
[[nodiscard]] OPAL_EXPORT bool kernel_copies_slowly(std::uint64_t to, std::uint64_t from) noexcept;

}  // namespace opal
