// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/copy.hpp — memcpy for any two kinds of memory: done when it returns.
// Without a driver it is memcpy and a branch.  With one it goes through a stream of our own, one per context, so that
// it waits for nothing of the program's; for large transfers copier.hpp overlaps.  Threads: everything from any thread.
#pragma once
#include <cstddef>

#include "opal/core/copy.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

namespace detail {
OPAL_EXPORT Result<void> copy_any(void* to, const void* from, std::size_t size) noexcept;
}  // namespace detail

/// Copies `size` bytes; the ranges do not overlap, unless both are the host's.  Errors, after which the target's bytes
/// are undefined: not_supported (no context for it), timed_out (Copier::finish()), the driver's.  On the host: none.
inline Result<void> copy(void* to, const void* from, std::size_t size) noexcept {
  if (active()) [[unlikely]]
    return size == 0 ? Result<void>{} : detail::copy_any(to, from, size);
  if (size <= kShortCopy) {
    copy_short(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
  } else {
    copy_bytes(to, from, size);
  }
  return {};
}

}  // namespace opal::gpu
