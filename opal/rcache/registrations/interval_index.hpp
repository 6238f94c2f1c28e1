// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/interval_index.hpp — finds the registrations that contain or overlap a range.
// A treap ordered by begin; each node has the largest end of its subtree.  The nodes are members of the registrations,
// so nothing here allocates or fails.  Priorities are hashes of identities, so the expected depth is logarithmic.
// Owns: nothing; a registration outlives its membership.  Threads: not safe; the cache locks.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

class OPAL_EXPORT IntervalIndex {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Registration* any() const noexcept { return root_; }  ///< any member; null if empty

  void insert(Registration& registration) noexcept;  ///< requires: it is in no index
  void erase(Registration& registration) noexcept;   ///< requires: it is in this index

  /// A registration that contains [begin, end) and allows `access`, or null.
  /// Cost: logarithmic, plus one step for each registration that contains the range without the rights.
  [[nodiscard]] Registration* find_containing(std::uintptr_t begin, std::uintptr_t end, Access access) const noexcept {
    return find(root_, begin, end, access);
  }

  /// The first registration that shares a byte with [begin, end) and that accept(registration) accepts, or null.
  /// Requires: accept() does not change the index.
  /// Cost: logarithmic, plus one step for each registration that accept() refuses.
  template <class Accept>
  Registration* find_overlapping(std::uintptr_t begin, std::uintptr_t end, Accept accept) const noexcept {
    return walk(root_, begin, end, accept);
  }

  /// Becomes empty without an access to the registrations.
  void abandon() noexcept {
    root_ = nullptr;
    size_ = 0;
  }

 private:
  static bool before(const Registration& a, const Registration& b) noexcept;
  static bool outranks(const Registration& a, const Registration& b) noexcept;
  static void update(Registration& node) noexcept;
  static void split(Registration* tree, const Registration& at, Registration*& low, Registration*& high) noexcept;
  static Registration* join(Registration* low, Registration* high) noexcept;
  static Registration* inserted(Registration* tree, Registration& fresh) noexcept;
  static Registration* erased(Registration* tree, Registration& gone) noexcept;
  static Registration* find(Registration* node, std::uintptr_t begin, std::uintptr_t end, Access access) noexcept;

  template <class Which>
  static Registration* walk(Registration* node, std::uintptr_t begin, std::uintptr_t end, Which& which) noexcept {
    for (; node != nullptr && node->subtree_end_ > begin; node = node->right_) {
      if (Registration* const found = walk(node->left_, begin, end, which); found != nullptr) return found;
      if (node->begin() >= end) return nullptr;
      if (node->end() > begin && which(*node)) return node;
    }
    return nullptr;
  }

  Registration* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace opal::rcache
