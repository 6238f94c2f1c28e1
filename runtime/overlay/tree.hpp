// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/tree.hpp — parents and children in a k-ary tree over members 0 .. count-1.
// Members are numbered in preorder, so each subtree is one range of numbers: routing compares two bounds, a message
// describes a subtree by two numbers, and neighbouring hosts of the list share a subtree.  Each member splits the
// members below it into `radix` parts whose sizes differ by at most one: the depth grows with log_radix(count).
// A value.  It stores nothing per member; each function walks down from the root.
#pragma once
#include <vector>

#include "runtime/overlay/id_set.hpp"

namespace runtime::overlay {

class Tree {
 public:
  /// Requires: count >= 1, radix >= 1.
  Tree(Id count, unsigned radix) noexcept : count_(count), radix_(radix) {}

  [[nodiscard]] Id count() const noexcept { return count_; }
  [[nodiscard]] unsigned radix() const noexcept { return radix_; }
  /// The subtree with the root `id`.  Requires, here and below: id < count.
  [[nodiscard]] Range subtree(Id id) const noexcept { return find(id).range; }
  /// The parent of `id`; 0 for the root.
  [[nodiscard]] Id parent(Id id) const noexcept { return find(id).parent; }
  /// The subtrees of the children of `id`; the first member of each range is the child.
  [[nodiscard]] std::vector<Range> children(Id id) const;

 private:
  struct Place {
    Range range;
    Id parent = 0;
  };
  [[nodiscard]] Place find(Id id) const noexcept;
  Id count_;
  unsigned radix_;
};

}  // namespace runtime::overlay
