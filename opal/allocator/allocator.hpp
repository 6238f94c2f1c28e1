// SPDX-License-Identifier: Apache-2.0
// opal/allocator/allocator.hpp — the interface of all allocators: it allocates and frees blocks of any size and
// alignment.  Allocators stack: a pool allocates pages, and a `Bucket` cuts small blocks out of the blocks of its
// parent, another Allocator.  The parent outlives the allocators stacked on it.
// Bookkeeping is in private memory, because the managed bytes may be shared with other processes.
// Threads: every implementation is safe from any thread.
#pragma once
#include <cstddef>

#include "opal/core/result.hpp"

namespace opal::allocator {

/// The present counts of an allocator.
struct Usage {
  std::size_t managed = 0;  ///< bytes obtained from the parent or the system
  std::size_t used = 0;     ///< bytes in live blocks, rounding included
  std::size_t blocks = 0;   ///< live blocks
};

/// An alignment that suffices for every scalar type.
inline constexpr std::size_t kDefaultAlignment = alignof(std::max_align_t);

class Allocator {
 public:
  Allocator() noexcept = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  /// Allocates at least `size` bytes (0 counts as 1) at a multiple of `alignment`, a power of two.  The contents are
  /// unspecified.  The block is valid until deallocate() or the end of the allocator.
  /// Errors: invalid_argument (alignment), no_space, no_memory, limit_reached.
  virtual Result<std::byte*> allocate(std::size_t size, std::size_t alignment = kDefaultAlignment) noexcept = 0;

  /// Frees a block that allocate() returned.  Errors: invalid_argument (detail = the address) for a block freed twice,
  /// an address inside a block, and an address that is not of this allocator; these change nothing.
  virtual Result<void> deallocate(std::byte* address) noexcept = 0;

  [[nodiscard]] virtual Usage usage() const noexcept = 0;

  /// Returns memory without live blocks to the parent or the system.  Result: the number of bytes returned.
  virtual std::size_t trim() noexcept { return 0; }
};

}  // namespace opal::allocator
