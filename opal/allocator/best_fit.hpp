// SPDX-License-Identifier: Apache-2.0
// opal/allocator/best_fit.hpp — best-fit allocation of blocks from the offsets [0, end).  It takes the smallest free
// range that fits; of equal ones the lowest.  Adjacent free ranges are merged.  It never accesses the memory that the
// offsets stand for.  Cost: logarithmic in the number of ranges.  If an alignment is larger than the granule,
// allocate() may also test ranges that are large enough but do not contain an aligned block.
// Threads: not safe; the owner locks.  deallocate() allocates no memory: each block keeps the set node that it needs
// when it becomes a free range.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::allocator {

class OPAL_EXPORT BestFit {
 public:
  /// Block sizes are rounded up to a multiple of `granule`, a power of two.
  explicit BestFit(std::uint64_t granule) noexcept : granule_(granule) {}

  /// Adds the offsets [end(), end() + size) as free.  Requires: size >= 1.  Errors: no_memory.
  Result<void> grow(std::uint64_t size) noexcept;

  /// Returns the begin of a new block of `size` bytes (0 counts as 1), a multiple of `alignment`, a power of two.
  /// Errors: no_space (nothing fits), no_memory.
  Result<std::uint64_t> allocate(std::uint64_t size, std::uint64_t alignment) noexcept;

  /// Frees the block that begins at `begin`.  Errors: invalid_argument (no block begins there).
  Result<void> deallocate(std::uint64_t begin) noexcept;

  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  /// Bytes of the free range that ends at end(); 0 if a block ends there.
  [[nodiscard]] std::uint64_t free_tail() const noexcept;
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] std::size_t blocks() const noexcept { return ranges_.size() - free_.size(); }

 private:
  using Free = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // size and begin of each free range
  struct Range {
    std::uint64_t size;
    Free::node_type place;  // a block's spare node for free_; empty while the range is free
  };
  using Ranges = std::map<std::uint64_t, Range>;  // free ranges and blocks, by begin

  Ranges::iterator add(std::uint64_t begin, std::uint64_t size);
  Ranges::iterator split(Ranges::iterator range, std::uint64_t size);
  void release(Ranges::iterator range) noexcept;

  std::uint64_t granule_;
  Ranges ranges_;
  Free free_;
  std::uint64_t end_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace opal::allocator
