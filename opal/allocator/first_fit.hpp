// SPDX-License-Identifier: Apache-2.0
// opal/allocator/first_fit.hpp — cuts blocks out of numeric ranges: first fit in address order, neighbours coalesce.
// Works on numbers (addresses or offsets) and never looks at the memory behind them.
// Threads: none of its own, the owner locks.  Cost: allocate() is linear in free ranges, deallocate() logarithmic in
// blocks. Invariants: free and live ranges are disjoint; no two free ranges touch; deallocate() needs no memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::allocator {

class OPAL_EXPORT FirstFit {
 public:
  /// Block sizes are rounded up to a multiple of `granule`, a power of two.
  explicit FirstFit(std::uint64_t granule = 16) noexcept : granule_(granule) {}

  /// Makes [begin, begin + size) free.  Errors: no_memory, invalid_argument (empty, wraps, or overlaps what is
  /// managed).
  Result<void> add(std::uint64_t begin, std::uint64_t size) noexcept;

  /// Stops managing [begin, begin + size) if all of it is free.
  /// Errors: busy (a live block is in it), invalid_argument (not managed), no_memory.
  Result<void> remove(std::uint64_t begin, std::uint64_t size) noexcept;

  /// The begin of a new block of `size` bytes (0 counts as 1), a multiple of `alignment`.
  /// Errors: invalid_argument (alignment), no_space (nothing fits), no_memory.
  Result<std::uint64_t> allocate(std::uint64_t size, std::uint64_t alignment) noexcept;

  /// Frees the block that begins at `begin` and returns its bytes.
  /// Errors: invalid_argument (detail = begin): freed already, the inside of a block, or not managed.
  Result<std::uint64_t> deallocate(std::uint64_t begin) noexcept;

  /// Bytes of the free range that ends exactly at `end`; 0 when there is none.
  [[nodiscard]] std::uint64_t free_before(std::uint64_t end) const noexcept;

  [[nodiscard]] std::uint64_t managed() const noexcept { return managed_; }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] std::size_t blocks() const noexcept { return live_.size(); }
  [[nodiscard]] std::size_t free_ranges() const noexcept { return free_.size(); }

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // begin -> size

  static bool overlaps(const Ranges& ranges, std::uint64_t begin, std::uint64_t size) noexcept;
  static Ranges::const_iterator containing(const Ranges& ranges, std::uint64_t address) noexcept;
  void insert_free(Ranges::node_type node) noexcept;
  [[nodiscard]] const char* why_not_live(std::uint64_t begin) const noexcept;

  std::uint64_t granule_;
  Ranges free_;
  Ranges live_;  // same type as free_, so that a node moves over without allocating
  std::uint64_t managed_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace opal::allocator
