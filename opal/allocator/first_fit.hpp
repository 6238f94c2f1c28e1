// SPDX-License-Identifier: Apache-2.0
// opal/allocator/first_fit.hpp — cuts blocks out of numeric ranges: first fit in address order, neighbours coalesce.
// Works on numbers (addresses or offsets) and never looks at the memory behind them.
// All ranges, free and live, are one treap in order of address (Seidel and Aragon, "Randomized search trees", 1996),
// each node knowing the largest free range below it: so the lowest range that fits, and the neighbours of one that is
// freed, are found in logarithmic time.  Only for alignments beyond the granule more may be looked at: ranges that are
// large enough, but not where they lie. Threads: none of its own, the owner locks.  Invariants: ranges are disjoint; no
// two free ones touch; deallocate() needs no memory, since a range's node stays when it changes sides.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }

 private:
  using Index = std::uint32_t;  // of a node
  static constexpr Index kNone = UINT32_MAX;

  struct Node {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::uint64_t largest = 0;  // free range in this subtree
    Index left = kNone;
    Index right = kNone;
    std::uint32_t priority = 0;  // no lower than the children's
    bool live = false;

    [[nodiscard]] std::uint64_t end() const noexcept { return begin + size; }
  };

  void reserve(std::size_t nodes);
  Index make(std::uint64_t begin, std::uint64_t size, bool live) noexcept;
  void recycle(Index node) noexcept;
  void update(Index node) noexcept;
  std::pair<Index, Index> split(Index root, std::uint64_t begin) noexcept;
  Index merge(Index low, Index high) noexcept;
  void insert(Index node) noexcept;
  void erase(Index node) noexcept;
  void refresh(std::uint64_t begin) noexcept;
  void insert_free(Index node) noexcept;

  [[nodiscard]] Index last_at_or_before(std::uint64_t address) const noexcept;
  [[nodiscard]] Index first_after(std::uint64_t address) const noexcept;
  [[nodiscard]] Index containing(std::uint64_t address) const noexcept;
  [[nodiscard]] Index lowest_fit(Index root, std::uint64_t size, std::uint64_t alignment) const noexcept;
  [[nodiscard]] const char* why_not_live(std::uint64_t begin) const noexcept;

  std::uint64_t granule_;
  std::vector<Node> nodes_;
  Index root_ = kNone;
  Index unused_ = kNone;  // nodes of no range, linked by `left`
  std::size_t unused_count_ = 0;
  std::size_t blocks_ = 0;
  std::uint64_t managed_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t random_ = 0x9e3779b97f4a7c15U;  // priorities: any numbers do that do not follow the addresses
};

}  // namespace opal::allocator
