// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/copy.hpp — a synchronous memcpy for any two kinds of memory.
// Without a driver it costs a memcpy and a branch.  GPU memory is copied in a stream of the library, one per CUDA
// context, so that the copy does not wait for the program's streams.  Asynchronous copies: copier.hpp.  Threads: any.
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

/// Copies `size` bytes.  Ranges that overlap must both be host memory.  Host to host never fails.
/// Errors, after which the target's bytes are undefined: not_supported (no CUDA context for the memory), those of the
/// driver.
inline Result<void> copy(void* to, const void* from, std::size_t size) noexcept {
  if (active()) [[unlikely]]
    return size == 0 ? Result<void>{} : detail::copy_any(to, from, size);
  copy_to(static_cast<std::byte*>(to), {static_cast<const std::byte*>(from), size});
  return {};
}

/// Blocks at a constant distance.
struct Blocks {
  std::size_t size = 0;   ///< bytes of a block
  std::size_t count = 0;  ///< of blocks
};

/// Copies blocks: the first from `from` to `to`, each next one `from_stride` and `to_stride` bytes after the one
/// before.  Positive strides and disjoint blocks of GPU memory take one call of the driver; others take one per block.
/// Requires: the driver is active.  Errors: as copy().
OPAL_EXPORT Result<void> copy_blocks(void* to, std::ptrdiff_t to_stride, const void* from, std::ptrdiff_t from_stride,
                                     Blocks blocks) noexcept;

}  // namespace opal::gpu
