// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/layout.hpp — the offsets of the bytes of one instance of a datatype, in the order of the message.
// A layout is a sequence of items.  An item repeats a body at a stride.  The body is one contiguous block, an irregular
// list of blocks, or a nested sequence.  A block that is repeated once is called a run.  Units are bytes.
// Owned by its datatype.  Threads: immutable once built.
// Invariants: no block or item is empty.  Offsets are relative to the start of the sequence.  `begin` is a prefix sum
// of packed bytes, so a position is found by division and binary search.  All users of a nested sequence share one
// copy.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "mpi_shim/datatype/bounds.hpp"

namespace mpi_shim::datatype {

enum class Body : std::uint8_t { block, list, sequence };

struct Item {
  std::int64_t offset = 0;  ///< of the first repetition
  std::int64_t stride = 0;  ///< bytes between repetitions; 0 when there is one
  std::int64_t count = 1;   ///< repetitions, >= 1
  std::int64_t bytes = 0;   ///< packed bytes of one repetition
  std::int64_t begin = 0;   ///< packed bytes in front of this item in its sequence
  std::int64_t each = 0;    ///< list: the length of every block if all are equal; else 0
  std::uint32_t first = 0;  ///< list: index of the first block in `blocks`; sequence: of the first item in `items`
  std::uint32_t last = 0;   ///< one after the index of the last block or item
  std::uint32_t depth = 1;  ///< levels of items below and including this one
  Body body = Body::block;

  [[nodiscard]] bool is_run() const noexcept { return body == Body::block && count == 1; }
  [[nodiscard]] std::int64_t total_bytes() const noexcept { return count * bytes; }
};

/// One block of a list.  Its length is the `begin` of the next block minus its own; each list ends with a sentinel.
struct Block {
  std::int64_t offset = 0;  ///< of the block, from the start of one repetition of the list
  std::int64_t begin = 0;   ///< packed bytes in front of this block in its list
};

struct Layout {
  std::vector<Item> items;
  std::vector<Block> blocks;
  std::uint32_t root_first = 0;  ///< the outermost sequence is items[root_first, root_last)
  std::uint32_t root_last = 0;
  std::uint32_t depth = 0;  ///< levels of items
  std::int64_t bytes = 0;   ///< packed bytes of one instance

  /// One contiguous block at offset 0.
  static Layout of_block(std::int64_t length);

  [[nodiscard]] std::uint32_t root_items() const noexcept { return root_last - root_first; }
  /// The only outermost item, or null when there are none or several.
  [[nodiscard]] const Item* only_item() const noexcept { return root_items() == 1 ? &items[root_first] : nullptr; }
  /// Whether all data is one contiguous block (or nothing at all).
  [[nodiscard]] bool is_one_run() const noexcept { return bytes == 0 || (root_items() == 1 && only_item()->is_run()); }
};

/// Changes `item` to `count` repetitions of itself, `stride` bytes apart.  False if that needs a nested sequence;
/// `item` is then unchanged.
[[nodiscard]] bool repeat_in_place(Item& item, std::int64_t count, std::int64_t stride) noexcept;

/// Builds the layout of a datatype in the order of the message, and its bounds.  Each step checks the bounds first, so
/// that no sum of the layout overflows.  After an overflow, further steps do nothing.  Threads: one.
class LayoutBuilder {
 public:
  /// Appends `count` copies of `part`, `stride` bytes apart, the first at `offset`.  `part` outlives the builder.
  void add(const Bounds& bounds, const Layout& part, std::int64_t count, std::int64_t stride, std::int64_t offset);

  /// Repeats everything added so far `count` times, `stride` bytes apart.
  void repeat(std::int64_t count, std::int64_t stride);

  /// Moves everything added so far by `offset` bytes.
  void shift(std::int64_t offset) noexcept;

  /// Sets explicit bounds.
  void set_markers(std::int64_t lb, std::int64_t ub) noexcept {
    bounds_.marker_lb = lb;
    bounds_.marker_ub = ub;
    bounds_.has_markers = true;
  }

  /// Returns the optimised layout; it is unusable if overflowed().
  [[nodiscard]] Layout finish();

  [[nodiscard]] const Bounds& bounds() const noexcept { return bounds_; }
  /// Whether a size or bound does not fit 64 bits, or the layout needs more than 2^32 items or blocks.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  /// The index in out_ at which the items and blocks of an imported part begin.
  struct Origin {
    std::uint32_t items;
    std::uint32_t blocks;
  };
  Origin import(const Layout& part);
  static Item rebased(Item item, Origin origin) noexcept;
  void append(const Item& item);
  Item repeated(Item item, std::int64_t count, std::int64_t stride);
  Item nest(const std::vector<Item>& sequence);
  void optimise(std::vector<Item>& sequence);
  void flush_runs(const std::vector<Item>& sequence, std::size_t first, std::size_t last, std::vector<Item>& out);

  Bounds bounds_;
  Layout out_;
  std::vector<Item> sequence_;  // the outermost sequence so far
  std::unordered_map<const Layout*, Origin> imported_;
  bool overflowed_ = false;
};

}  // namespace mpi_shim::datatype
