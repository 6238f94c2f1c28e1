// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/interval_index.hpp — finds registrations by range: which contain it, which overlap it.
// A treap ordered by first byte whose nodes know the largest end below them.  The nodes are the registrations
// themselves, so nothing here allocates or fails.  Depth is logarithmic because priorities are hashed identities.
// Owns: nothing.  Threads: none of its own, the cache locks.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

class OPAL_EXPORT IntervalIndex {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Registration* any() const noexcept { return root_; }  ///< some registration; null when empty

  void insert(Registration& registration) noexcept;
  void erase(Registration& registration) noexcept;  ///< `registration` must be in the index

  /// A registration that contains [begin, end) and allows `access`, or null.  Logarithmic, unless registrations that
  /// contain the range lack the rights: those are looked at one by one.
  [[nodiscard]] Registration* find_containing(std::uintptr_t begin, std::uintptr_t end, Access access) const noexcept {
    return find(root_, begin, end, access);
  }

  /// visit(registration) for each that shares a byte with [begin, end) until it returns true; the index stays as it is.
  /// Returns whether one did.
  template <class Visit>
  bool any_overlapping(std::uintptr_t begin, std::uintptr_t end, Visit visit) const noexcept {
    return walk(root_, begin, end, visit);
  }

  /// Forgets everything without looking at it.
  void abandon() noexcept {
    root_ = nullptr;
    size_ = 0;
  }

  /// A registration that shares a byte with [begin, end), or null.  Logarithmic.
  [[nodiscard]] Registration* find_overlapping(std::uintptr_t begin, std::uintptr_t end) const noexcept;

 private:
  static bool before(const Registration& a, const Registration& b) noexcept;
  static bool outranks(const Registration& a, const Registration& b) noexcept;
  static void update(Registration& node) noexcept;
  static void split(Registration* tree, const Registration& at, Registration*& low, Registration*& high) noexcept;
  static Registration* join(Registration* low, Registration* high) noexcept;
  static Registration* inserted(Registration* tree, Registration& fresh) noexcept;
  static Registration* erased(Registration* tree, Registration& gone) noexcept;
  static Registration* find(Registration* node, std::uintptr_t begin, std::uintptr_t end, Access access) noexcept;

  template <class Visit>
  static bool walk(Registration* node, std::uintptr_t begin, std::uintptr_t end, Visit& visit) noexcept {
    for (; node != nullptr && node->subtree_end_ > begin; node = node->right_) {
      if (walk(node->left_, begin, end, visit)) return true;
      if (node->begin() >= end) return false;
      if (node->end() > begin && visit(*node)) return true;
    }
    return false;
  }

  Registration* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace opal::rcache
