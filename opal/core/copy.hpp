// SPDX-License-Identifier: Apache-2.0
// opal/core/copy.hpp — copies of host memory: inline code up to kShortCopy bytes, else memmove(), or a loop of vector
// moves where memmove() is slow.
//
// From about 2 KiB on glibc copies with `rep movsb` on processors that copy short strings fast (FSRM).  For the shared
// memory of this project it is the best choice: it writes whole cache lines without reading them first, so that lines
// which another core has read cost half as much (Zen 5: 16 KiB to the other core 0.45 us, by 64-byte vectors 0.74; of
// cores without a common cache 1.4 and 3.2 us).
// The loop is for AMD Zen 3 and 4: there `rep movsb` reaches 50-100 GB/s, but only 1.5-3.6 GB/s if the target's offset
// in its page is 1-15 bytes above the source's (on some of them also 16-63).  malloc() returns large blocks at offset
// 16.
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

/// The most bytes that copy_short() copies: inline, with at most two loads and two stores.
inline constexpr std::size_t kShortCopy = 16;

/// The fewest bytes for which the addresses are looked at.  For fewer, no known memmove() uses `rep movsb`.
inline constexpr std::size_t kVectorCopy = 2048;

namespace detail {

/// Copies the first sizeof(First) and the last sizeof(Last) of `size` bytes; the two parts may overlap.
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

/// The function that copies kVectorCopy bytes and more.  Its first call chooses the one for this processor.
OPAL_EXPORT extern std::atomic<LongCopy> long_copy;

}  // namespace detail

/// Copies `size` <= kShortCopy bytes.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  using detail::move_ends;
  if (size >= 8) {
    // Headers of 12 bytes were just written.  The second of two 8-byte loads would span two stores, and would wait
    // until both have left the store buffer.
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

/// Copies `size` bytes, any number.
inline void copy_host_memory(void* to, const void* from, std::size_t size) noexcept {
  if (size >= kVectorCopy) return detail::long_copy.load(std::memory_order_relaxed)(to, from, size);
  if (size != 0) std::memmove(to, from, size);
}

/// Copies `bytes` to `to`.  Requires: `to` has room for them.
inline void copy_to(std::byte* to, ByteSpan bytes) noexcept {
  if (bytes.size() <= kShortCopy) [[likely]]
    return copy_short(to, bytes.data(), bytes.size());
  copy_host_memory(to, bytes.data(), bytes.size());
}

/// True if `rep movsb` is slow for these two addresses on this processor.  The kernel uses it for process_vm_readv().
[[nodiscard]] OPAL_EXPORT bool kernel_copies_slowly(std::uint64_t to, std::uint64_t from) noexcept;

}  // namespace opal
