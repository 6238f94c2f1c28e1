// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/copy.hpp — memcpy that stays inline for the few bytes of which most messages consist.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "opal/core/bytes.hpp"

namespace opal::btl::sm {

/// Copies `bytes` to `to`, which has room.  Up to 16 bytes are two moves that may overlap, without a call.
inline void copy_to(std::byte* to, ByteSpan bytes) noexcept {
  const std::size_t size = bytes.size();
  const std::byte* from = bytes.data();
  auto move_ends = [&]<class T>(T) {
    T first;
    T last;
    std::memcpy(&first, from, sizeof(T));
    std::memcpy(&last, from + size - sizeof(T), sizeof(T));
    std::memcpy(to, &first, sizeof(T));
    std::memcpy(to + size - sizeof(T), &last, sizeof(T));
  };
  if (size > 16) {
    std::memcpy(to, from, size);
  } else if (size >= 8) {
    move_ends(std::uint64_t{});
  } else if (size >= 4) {
    move_ends(std::uint32_t{});
  } else if (size >= 2) {
    move_ends(std::uint16_t{});
  } else if (size == 1) {
    *to = *from;
  }
}

}  // namespace opal::btl::sm
