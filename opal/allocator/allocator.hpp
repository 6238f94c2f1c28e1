// SPDX-License-Identifier: Apache-2.0
// opal/allocator/allocator.hpp — what every source of memory offers: blocks of any size and alignment, given and taken
// back. Allocators stack: a pool hands out pages, `Bucket` cuts blocks out of what another Allocator gives it.
// Bookkeeping is always private memory: managed bytes may be shared with other processes, so nothing is ever written to
// them. Threads: every implementation is safe from any thread.  Lifetime: a parent outlives the allocators stacked on
// it.
#pragma once
#include <cstddef>

#include "opal/core/result.hpp"

namespace opal::allocator {

/// What an allocator holds right now.
struct Usage {
  std::size_t managed = 0;  ///< bytes obtained from the memory below
  std::size_t used = 0;     ///< bytes in live blocks, rounding included
  std::size_t blocks = 0;   ///< live blocks
};

/// The alignment of memory that any scalar type can live in.
inline constexpr std::size_t kDefaultAlignment = alignof(std::max_align_t);

class Allocator {
 public:
  Allocator() noexcept = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  /// At least `size` bytes (0 counts as 1) at a multiple of `alignment`, a power of two.  The contents are unspecified.
  /// Errors: invalid_argument (alignment), no_space, no_memory, limit_reached.
  virtual Result<std::byte*> allocate(std::size_t size, std::size_t alignment = kDefaultAlignment) noexcept = 0;

  /// Takes back a block that allocate() returned.  A block freed twice, the inside of a block and a foreign address are
  /// invalid_argument (detail = the address) and change nothing.
  virtual Result<void> deallocate(std::byte* address) noexcept = 0;

  [[nodiscard]] virtual Usage usage() const noexcept = 0;

  /// Gives memory without live blocks back to where it came from; returns the bytes given back.
  virtual std::size_t trim() noexcept { return 0; }
};

}  // namespace opal::allocator
