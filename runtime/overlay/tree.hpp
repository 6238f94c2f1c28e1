// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/tree.hpp — parents and children in a k-ary tree over members 0 .. count-1.
// Members are numbered in preorder, so that each subtree is one range of numbers: routing compares two bounds, a
// subtree travels as two numbers, and hosts that are neighbours in the list share a subtree.  Each member splits what
// is below it into `radix` parts of equal size, give or take one: depth grows with log_radix(count).
// A value; nothing is stored per member, each answer is found by walking down from the root.
#pragma once
#include <vector>

#include "runtime/overlay/id_set.hpp"

namespace runtime::overlay {

class Tree {
 public:
  /// `count` >= 1, `radix` >= 1.
  Tree(Id count, unsigned radix) noexcept : count_(count), radix_(radix) {}

  [[nodiscard]] Id count() const noexcept { return count_; }
  [[nodiscard]] unsigned radix() const noexcept { return radix_; }
  /// The members of the subtree whose top is `id`.
  [[nodiscard]] Range subtree(Id id) const noexcept { return find(id).range; }
  /// The root's parent is the root.
  [[nodiscard]] Id parent(Id id) const noexcept { return find(id).parent; }
  /// Their subtrees, each with its top first.
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
