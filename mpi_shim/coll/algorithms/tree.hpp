// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/tree.hpp — a binomial tree over the ranks of a communicator.  Positions are ranks relative
// to the root; the subtree of position p is the positions [p, p + subtree).  A value.
#pragma once
#include <vector>

namespace mpi_shim::coll {

class BinomialTree {
 public:
  struct Child {
    int rank;
    int position;
    int subtree;  ///< positions below and including the child
  };

  BinomialTree(int rank, int size, int root) : position_((rank - root + size) % size) {
    int bit = 1;
    while (bit < size && (position_ & bit) == 0) bit <<= 1;
    if (bit < size) parent_ = (position_ - bit + root) % size;
    subtree_ = position_ + bit < size ? bit : size - position_;
    for (bit >>= 1; bit > 0; bit >>= 1) {
      const int child = position_ + bit;
      if (child < size) children_.push_back({(child + root) % size, child, child + bit < size ? bit : size - child});
    }
  }

  /// The rank of the parent; -1 for the root.
  [[nodiscard]] int parent() const noexcept { return parent_; }
  [[nodiscard]] int position() const noexcept { return position_; }
  [[nodiscard]] int subtree() const noexcept { return subtree_; }
  /// In descending order of the size of their subtrees.
  [[nodiscard]] const std::vector<Child>& children() const noexcept { return children_; }

 private:
  int position_;
  int parent_ = -1;
  int subtree_ = 1;
  std::vector<Child> children_;
};

}  // namespace mpi_shim::coll
