// SPDX-License-Identifier: Apache-2.0
// opal/memory/range.hpp — a range [begin, end) of the address space.  A value.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace opal::memory {

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  /// [address, +length) rounded out to whole pages of 4 KiB; ends at the last page if it would wrap.
  static Range pages(std::uintptr_t address, std::uintptr_t length) noexcept {
    constexpr std::uintptr_t kPage = 4096;
    constexpr std::uintptr_t kMost = std::numeric_limits<std::uintptr_t>::max() & ~(kPage - 1);
    if (length > kMost - std::min(address, kMost)) return {address & ~(kPage - 1), kMost};
    return {address & ~(kPage - 1), (address + length + kPage - 1) & ~(kPage - 1)};
  }

  [[nodiscard]] bool empty() const noexcept { return begin >= end; }
  [[nodiscard]] std::size_t size() const noexcept { return empty() ? 0 : end - begin; }
  [[nodiscard]] bool overlaps(Range other) const noexcept { return begin < other.end && other.begin < end; }
  [[nodiscard]] bool contains(Range other) const noexcept { return begin <= other.begin && other.end <= end; }
  friend bool operator==(Range, Range) = default;
};

}  // namespace opal::memory
