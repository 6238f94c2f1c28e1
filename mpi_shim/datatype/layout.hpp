// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/layout.hpp — where the bytes of one instance of a datatype lie, in the order a message carries
// them. A layout is a sequence of items.  An item repeats a body at a stride; the body is one contiguous block (so the
// item is a vector kernel, or a plain run when it repeats once), an irregular list of blocks, or a nested sequence.
// Owned by its datatype.  Threads: immutable once built.
// Invariants: no empty block or item; offsets are relative to the start of the sequence; `begin` are prefix sums of
// packed bytes, so that any position is found by division and binary search.  Nested sequences are shared, never copied
// out.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace mpi_shim::datatype {

enum class Body : std::uint8_t { block, list, sequence };

struct Item {
  std::int64_t offset = 0;  ///< of the first repetition
  std::int64_t stride = 0;  ///< bytes between repetitions; 0 when there is one
  std::int64_t count = 1;   ///< repetitions, >= 1
  std::int64_t bytes = 0;   ///< packed bytes of one repetition; the length of the block
  std::int64_t begin = 0;   ///< packed bytes in front of this item in its sequence
  std::int64_t each = 0;    ///< list: the length of every block, if they are equal
  std::uint32_t first = 0;  ///< list: index into blocks; sequence: index into items
  std::uint32_t last = 0;   ///< one behind
  std::uint32_t depth = 1;  ///< levels of items below and including this one
  Body body = Body::block;

  [[nodiscard]] bool is_run() const noexcept { return body == Body::block && count == 1; }
  [[nodiscard]] std::int64_t total_bytes() const noexcept { return count * bytes; }
};

/// One block of a list.  Its length is the next block's `begin` minus its own: each list ends in a sentinel.
struct Block {
  std::int64_t offset = 0;
  std::int64_t begin = 0;
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

/// Repeats the whole of `item` `count` times, `stride` apart, when that needs no further level; otherwise false, with
/// `item` unchanged.
[[nodiscard]] bool repeat_in_place(Item& item, std::int64_t count, std::int64_t stride) noexcept;

/// Builds a layout in message order.  The caller has checked with Bounds that nothing overflows.
class LayoutBuilder {
 public:
  /// Appends `count` copies of `part`, `stride` bytes apart, the first at `offset`.  `part` outlives the builder.
  void add(const Layout& part, std::int64_t count, std::int64_t stride, std::int64_t offset);

  /// Repeats everything added so far.
  void repeat(std::int64_t count, std::int64_t stride);

  /// Moves everything added so far by `offset` bytes.
  void shift(std::int64_t offset) noexcept {
    for (Item& item : sequence_) item.offset += offset;
  }

  /// The optimised layout; unusable when overflowed().
  [[nodiscard]] Layout finish() &&;

  /// More than 2^32 irregular blocks.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  struct Origin {
    std::uint32_t items;
    std::uint32_t blocks;
  };
  Origin import(const Layout& part);
  static Item rebased(Item item, Origin origin) noexcept;
  void append(const Item& item);
  void wrap_repeated(Item item, std::int64_t count, std::int64_t stride);
  Item nest(const std::vector<Item>& sequence);
  void optimise(std::vector<Item>& sequence);
  void flush_runs(const std::vector<Item>& sequence, std::size_t first, std::size_t last, std::vector<Item>& out);

  Layout out_;
  std::vector<Item> sequence_;
  std::unordered_map<const Layout*, Origin> imported_;
  bool overflowed_ = false;
};

}  // namespace mpi_shim::datatype
