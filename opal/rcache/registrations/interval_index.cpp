// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/registrations/interval_index.hpp"

#include <algorithm>

namespace opal::rcache {
namespace {

/// A hash of an identity (the finaliser of splitmix64).
std::uint64_t scatter(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

bool IntervalIndex::before(const Registration& a, const Registration& b) noexcept {
  return a.begin_ != b.begin_ ? a.begin_ < b.begin_ : a.identity() < b.identity();
}

bool IntervalIndex::outranks(const Registration& a, const Registration& b) noexcept {
  return a.priority_ > b.priority_;
}

void IntervalIndex::update(Registration& node) noexcept {
  std::uintptr_t end = node.end();
  if (node.left_ != nullptr) end = std::max(end, node.left_->subtree_end_);
  if (node.right_ != nullptr) end = std::max(end, node.right_->subtree_end_);
  node.subtree_end_ = end;
}

/// Splits `tree` into the nodes before `at` and those after it.
void IntervalIndex::split(Registration* tree, const Registration& at, Registration*& low,
                          Registration*& high) noexcept {
  if (tree == nullptr) {
    low = high = nullptr;
    return;
  }
  if (before(*tree, at)) {
    split(tree->right_, at, tree->right_, high);
    low = tree;
  } else {
    split(tree->left_, at, low, tree->left_);
    high = tree;
  }
  update(*tree);
}

/// Joins two trees.  Requires: all nodes of `low` are before all nodes of `high`.
Registration* IntervalIndex::join(Registration* low, Registration* high) noexcept {
  if (low == nullptr || high == nullptr) return low != nullptr ? low : high;
  if (outranks(*low, *high)) {
    low->right_ = join(low->right_, high);
    update(*low);
    return low;
  }
  high->left_ = join(low, high->left_);
  update(*high);
  return high;
}

Registration* IntervalIndex::inserted(Registration* tree, Registration& fresh) noexcept {
  if (tree == nullptr || outranks(fresh, *tree)) {
    split(tree, fresh, fresh.left_, fresh.right_);
    update(fresh);
    return &fresh;
  }
  auto& side = before(fresh, *tree) ? tree->left_ : tree->right_;
  side = inserted(side, fresh);
  tree->subtree_end_ = std::max(tree->subtree_end_, fresh.end());  // as update(), without an access to the other child
  return tree;
}

Registration* IntervalIndex::erased(Registration* tree, Registration& gone) noexcept {
  if (tree == &gone) return join(gone.left_, gone.right_);
  auto& side = before(gone, *tree) ? tree->left_ : tree->right_;
  side = erased(side, gone);
  if (tree->subtree_end_ == gone.end()) update(*tree);  // else another node determines subtree_end_
  return tree;
}

void IntervalIndex::insert(Registration& registration) noexcept {
  registration.priority_ = scatter(registration.identity());
  root_ = inserted(root_, registration);
  ++size_;
}

void IntervalIndex::erase(Registration& registration) noexcept {
  root_ = erased(root_, registration);
  registration.left_ = registration.right_ = nullptr;
  --size_;
}

Registration* IntervalIndex::find(Registration* node, std::uintptr_t begin, std::uintptr_t end,
                                  Access access) noexcept {
  while (node != nullptr && node->subtree_end_ >= end) {
    if (node->begin() > begin) {
      node = node->left_;
      continue;
    }
    if (node->end() >= end && node->allows(access)) return node;
    if (Registration* const found = find(node->right_, begin, end, access); found != nullptr) return found;
    node = node->left_;
  }
  return nullptr;
}

}  // namespace opal::rcache
