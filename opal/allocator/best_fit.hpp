// SPDX-License-Identifier: Apache-2.0
// opal/allocator/best_fit.hpp — cuts blocks out of the offsets [0, end): the smallest free range that fits, of several
// the lowest; neighbours coalesce.  Works on numbers and never looks at the memory behind them.  Everything is
// logarithmic; only for alignments beyond the granule several ranges may be looked at: large enough, but not where they
// lie.  Threads: none of its own, the owner locks.  Invariants: no two free ranges touch; deallocate() needs no memory,
// since a block keeps the node with which it comes back among the free ranges.
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

  /// The next `size` offsets, at least 1, are free from now on.  Errors: no_memory.
  Result<void> grow(std::uint64_t size) noexcept;

  /// Ends `size` offsets earlier, at most free_tail().
  void shrink(std::uint64_t size) noexcept;

  /// The begin of a new block of `size` bytes (0 counts as 1), a multiple of `alignment`, a power of two.
  /// Errors: no_space (nothing fits), no_memory.
  Result<std::uint64_t> allocate(std::uint64_t size, std::uint64_t alignment) noexcept;

  /// Frees the block that begins at `begin`.  Errors: invalid_argument (no block begins there).
  Result<void> deallocate(std::uint64_t begin) noexcept;

  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  /// Bytes of the free range that ends at end().
  [[nodiscard]] std::uint64_t free_tail() const noexcept;
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] std::size_t blocks() const noexcept { return ranges_.size() - free_.size(); }

 private:
  using Free = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // size and begin
  struct Range {
    std::uint64_t size;
    Free::node_type place;  // empty while it is free
  };
  using Ranges = std::map<std::uint64_t, Range>;  // free ones and blocks, by begin

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
