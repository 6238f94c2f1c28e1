// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/first_fit.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

#include "opal/core/bytes.hpp"

namespace opal::allocator {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

/// Bytes from `begin` to the next multiple of `alignment`.
std::uint64_t gap_before(std::uint64_t begin, std::uint64_t alignment) noexcept {
  return (alignment - (begin & (alignment - 1))) & (alignment - 1);
}

}  // namespace

// ---- Nodes

/// Makes sure that so many make() calls succeed.  Throws std::bad_alloc.
void FirstFit::reserve(std::size_t nodes) {
  while (unused_count_ < nodes) {
    nodes_.emplace_back();
    recycle(static_cast<Index>(nodes_.size() - 1));
  }
}

FirstFit::Index FirstFit::make(std::uint64_t begin, std::uint64_t size, bool live) noexcept {
  const Index node = unused_;
  unused_ = nodes_[node].left;
  --unused_count_;
  random_ ^= random_ << 13;  // xorshift64
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  nodes_[node] = {.begin = begin,
                  .size = size,
                  .largest = live ? 0 : size,
                  .priority = static_cast<std::uint32_t>(random_ >> 32),
                  .live = live};
  return node;
}

void FirstFit::recycle(Index node) noexcept {
  nodes_[node].left = unused_;
  unused_ = node;
  ++unused_count_;
}

// ---- Tree

void FirstFit::update(Index node) noexcept {
  Node& here = nodes_[node];
  here.largest = here.live ? 0 : here.size;
  if (here.left != kNone) here.largest = std::max(here.largest, nodes_[here.left].largest);
  if (here.right != kNone) here.largest = std::max(here.largest, nodes_[here.right].largest);
}

/// What begins below `begin`, and the rest.
std::pair<FirstFit::Index, FirstFit::Index> FirstFit::split(Index root, std::uint64_t begin) noexcept {
  if (root == kNone) return {kNone, kNone};
  Node& here = nodes_[root];
  if (here.begin < begin) {
    const auto [low, high] = split(here.right, begin);
    here.right = low;
    update(root);
    return {root, high};
  }
  const auto [low, high] = split(here.left, begin);
  here.left = high;
  update(root);
  return {low, root};
}

/// Of two trees of which all of `low` is below all of `high`.
FirstFit::Index FirstFit::merge(Index low, Index high) noexcept {
  if (low == kNone) return high;
  if (high == kNone) return low;
  if (nodes_[low].priority > nodes_[high].priority) {
    nodes_[low].right = merge(nodes_[low].right, high);
    update(low);
    return low;
  }
  nodes_[high].left = merge(low, nodes_[high].left);
  update(high);
  return high;
}

void FirstFit::insert(Index node) noexcept {
  const auto [low, high] = split(root_, nodes_[node].begin);
  root_ = merge(merge(low, node), high);
}

/// Takes a node out of the tree; it is not recycled.
void FirstFit::erase(Index node) noexcept {
  const std::uint64_t begin = nodes_[node].begin;
  const auto [low, rest] = split(root_, begin);
  const auto [self, high] = split(rest, begin + 1);
  root_ = merge(low, high);
  nodes_[self].left = nodes_[self].right = kNone;
  update(self);
}

/// After the size or side of the range that begins there has changed.
void FirstFit::refresh(std::uint64_t begin) noexcept {
  const auto [low, rest] = split(root_, begin);
  const auto [self, high] = split(rest, begin + 1);
  if (self != kNone) update(self);
  root_ = merge(merge(low, self), high);
}

FirstFit::Index FirstFit::last_at_or_before(std::uint64_t address) const noexcept {
  Index found = kNone;
  for (Index at = root_; at != kNone;) {
    if (nodes_[at].begin <= address) found = at;
    at = nodes_[at].begin <= address ? nodes_[at].right : nodes_[at].left;
  }
  return found;
}

FirstFit::Index FirstFit::first_after(std::uint64_t address) const noexcept {
  Index found = kNone;
  for (Index at = root_; at != kNone;) {
    if (nodes_[at].begin > address) found = at;
    at = nodes_[at].begin > address ? nodes_[at].left : nodes_[at].right;
  }
  return found;
}

FirstFit::Index FirstFit::containing(std::uint64_t address) const noexcept {
  const Index found = last_at_or_before(address);
  return found != kNone && address - nodes_[found].begin < nodes_[found].size ? found : kNone;
}

FirstFit::Index FirstFit::lowest_fit(Index root, std::uint64_t size, std::uint64_t alignment) const noexcept {
  if (root == kNone || nodes_[root].largest < size) return kNone;
  const Node& here = nodes_[root];
  if (const Index lower = lowest_fit(here.left, size, alignment); lower != kNone) return lower;
  const std::uint64_t gap = gap_before(here.begin, alignment);
  if (!here.live && here.size >= gap && here.size - gap >= size) return root;
  return lowest_fit(here.right, size, alignment);
}

// ---- Ranges

/// Puts a free range, which is in no tree, where it belongs, grown together with its neighbours.
void FirstFit::insert_free(Index node) noexcept {
  Node& here = nodes_[node];
  here.live = false;
  const auto absorb = [&](Index neighbour) {
    erase(neighbour);
    here.begin = std::min(here.begin, nodes_[neighbour].begin);
    here.size += nodes_[neighbour].size;
    recycle(neighbour);
  };
  const Index next = first_after(here.begin);
  if (next != kNone && !nodes_[next].live && nodes_[next].begin == here.end()) absorb(next);
  const Index previous = last_at_or_before(here.begin);
  if (previous != kNone && !nodes_[previous].live && nodes_[previous].end() == here.begin) absorb(previous);
  update(node);
  insert(node);
}

Result<void> FirstFit::add(std::uint64_t begin, std::uint64_t size) noexcept try {
  if (size == 0 || size > kMax - begin) return Error{Errc::invalid_argument, 0, "FirstFit::add(empty or wraps)", size};
  const Index next = first_after(begin);
  if (containing(begin) != kNone || (next != kNone && nodes_[next].begin - begin < size)) {
    return Error{Errc::invalid_argument, 0, "FirstFit::add(overlaps managed memory)", begin};
  }
  reserve(1);
  insert_free(make(begin, size, false));
  managed_ += size;
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "FirstFit::add(bookkeeping)", size};
}

Result<void> FirstFit::remove(std::uint64_t begin, std::uint64_t size) noexcept try {
  const Index found = containing(begin);
  const bool all_free = size != 0 && found != kNone && !nodes_[found].live && size <= nodes_[found].end() - begin;
  if (!all_free) {
    bool busy = found != kNone && nodes_[found].live;
    for (Index at = first_after(begin); at != kNone && nodes_[at].begin - begin < size && !busy;) {
      busy = nodes_[at].live;
      at = first_after(nodes_[at].begin);
    }
    busy = busy && size != 0;
    return Error{busy ? Errc::busy : Errc::invalid_argument, 0,
                 busy ? "FirstFit::remove(a live block is in the range)" : "FirstFit::remove(not managed)", begin};
  }
  reserve(1);  // first: nothing changed yet
  const std::uint64_t front = begin - nodes_[found].begin;
  const std::uint64_t tail = nodes_[found].size - front - size;
  erase(found);
  if (tail > 0) insert_free(make(begin + size, tail, false));
  if (front > 0) {
    nodes_[found].size = front;
    insert_free(found);
  } else {
    recycle(found);
  }
  managed_ -= size;
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "FirstFit::remove(bookkeeping)", size};
}

Result<std::uint64_t> FirstFit::allocate(std::uint64_t size, std::uint64_t alignment) noexcept try {
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "FirstFit::allocate(alignment is not a power of two)", alignment};
  }
  const Error full{Errc::no_space, 0, "FirstFit::allocate(no free range is large enough)", size};
  if (size > kMax - granule_) return full;
  size = align_up(size == 0 ? 1 : size, granule_);
  reserve(2);  // first: nothing changed yet
  const Index found = lowest_fit(root_, size, alignment);
  if (found == kNone) return full;
  const std::uint64_t gap = gap_before(nodes_[found].begin, alignment);
  const std::uint64_t begin = nodes_[found].begin + gap;
  const std::uint64_t tail = nodes_[found].size - gap - size;
  if (gap > 0) {
    nodes_[found].size = gap;
    refresh(nodes_[found].begin);
    insert(make(begin, size, true));
  } else {
    nodes_[found].size = size;
    nodes_[found].live = true;
    refresh(begin);
  }
  if (tail > 0) insert(make(begin + size, tail, false));
  ++blocks_;
  used_ += size;
  return begin;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "FirstFit::allocate(bookkeeping)", size};
}

Result<std::uint64_t> FirstFit::deallocate(std::uint64_t begin) noexcept {
  const Index found = last_at_or_before(begin);
  if (found == kNone || nodes_[found].begin != begin || !nodes_[found].live) {
    return Error{Errc::invalid_argument, 0, why_not_live(begin), begin};
  }
  const std::uint64_t size = nodes_[found].size;
  used_ -= size;
  --blocks_;
  erase(found);
  insert_free(found);
  return size;
}

const char* FirstFit::why_not_live(std::uint64_t begin) const noexcept {
  const Index found = containing(begin);
  if (found == kNone) return "deallocate(foreign address)";
  return nodes_[found].live ? "deallocate(address is inside a block, not its start)"
                            : "deallocate(address is free already: freed twice?)";
}

std::uint64_t FirstFit::free_before(std::uint64_t end) const noexcept {
  if (end == 0) return 0;
  const Index found = containing(end - 1);
  return found != kNone && !nodes_[found].live && nodes_[found].end() == end ? nodes_[found].size : 0;
}

}  // namespace opal::allocator
