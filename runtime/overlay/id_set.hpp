// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/id_set.hpp — sets of members of the tree, stored as ranges.  The sets in use have few ranges, since a
// subtree is one range (tree.hpp).  Values; no shared state.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace runtime::overlay {

using Id = std::uint32_t;  ///< a member's number; the root is 0

/// Members begin .. end-1.
struct Range {
  Id begin = 0;
  Id end = 0;
  [[nodiscard]] bool empty() const noexcept { return begin >= end; }
  [[nodiscard]] bool contains(Id id) const noexcept { return begin <= id && id < end; }
  [[nodiscard]] bool intersects(Range other) const noexcept {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
  friend bool operator==(const Range&, const Range&) = default;
};

class IdSet {
 public:
  IdSet() = default;
  explicit IdSet(Range range) { add(range); }
  static IdSet of(Id id) { return IdSet{Range{id, id + 1}}; }

  void add(Range range);
  void add(Id id) { add(Range{id, id + 1}); }
  void add(const IdSet& other);
  void remove(Range range);
  void remove(const IdSet& other);

  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  [[nodiscard]] bool contains(Id id) const noexcept { return intersects(Range{id, id + 1}); }
  [[nodiscard]] bool intersects(Range range) const noexcept;
  [[nodiscard]] bool intersects(const IdSet& other) const noexcept;
  /// The intersection with `range`.
  [[nodiscard]] IdSet within(Range range) const;
  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }
  /// True when the ranges ascend, are not empty, do not touch each other and end at `count` or below.  A set received
  /// from a peer must be tested.
  [[nodiscard]] bool valid(Id count) const noexcept;

  friend bool operator==(const IdSet&, const IdSet&) = default;
  template <class V>
  void fields(V& v) {
    v(ranges_);
  }

 private:
  std::vector<Range> ranges_;  // ascending, with at least one member between two ranges
};

}  // namespace runtime::overlay
