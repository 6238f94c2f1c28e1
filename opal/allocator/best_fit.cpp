// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/best_fit.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include "opal/core/bytes.hpp"

namespace opal::allocator {

/// Adds [begin, begin + size) to ranges_ as a block, with a new node for free_.  Throws std::bad_alloc.
BestFit::Ranges::iterator BestFit::add(std::uint64_t begin, std::uint64_t size) {
  Free place;
  place.emplace();
  return ranges_.emplace(begin, Range{size, place.extract(place.begin())}).first;
}

/// Divides a block after `size` bytes; returns the second part, a block too.  Throws std::bad_alloc.
BestFit::Ranges::iterator BestFit::split(Ranges::iterator range, std::uint64_t size) {
  const auto rest = add(range->first + size, range->second.size - size);
  range->second.size = size;
  return rest;
}

/// Makes a block free, and merges it with free neighbours.
void BestFit::release(Ranges::iterator range) noexcept {
  const auto is_free = [](const auto& neighbour) { return neighbour->second.place.empty(); };
  if (const auto next = std::next(range); next != ranges_.end() && is_free(next)) {
    free_.erase({next->second.size, next->first});
    range->second.size += next->second.size;
    ranges_.erase(next);
  }
  if (range != ranges_.begin() && is_free(std::prev(range))) {
    const auto previous = std::prev(range);
    free_.erase({previous->second.size, previous->first});
    previous->second.size += range->second.size;
    previous->second.place = std::move(range->second.place);
    ranges_.erase(range);
    range = previous;
  }
  range->second.place.value() = {range->second.size, range->first};
  free_.insert(std::move(range->second.place));
}

Result<void> BestFit::grow(std::uint64_t size) noexcept try {
  release(add(end_, size));
  end_ += size;
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "allocator(bookkeeping)", size};
}

Result<std::uint64_t> BestFit::allocate(std::uint64_t size, std::uint64_t alignment) noexcept {
  const Error full{Errc::no_space, 0, "allocator: no free range is large enough", size};
  if (size > end_) return full;
  size = align_up(std::max<std::uint64_t>(size, 1), granule_);
  const auto gap = [&](const Free::value_type& range) { return align_up(range.second, alignment) - range.second; };
  const auto fit = std::find_if(free_.lower_bound({size, 0}), free_.end(),
                                [&](const Free::value_type& range) { return gap(range) <= range.first - size; });
  if (fit == free_.end()) return full;
  const std::uint64_t before = gap(*fit);
  auto block = ranges_.find(fit->second);
  block->second.place = free_.extract(fit);
  try {
    if (before > 0) {
      const auto front = std::exchange(block, split(block, before));
      release(front);
    }
    if (block->second.size > size) release(split(block, size));
  } catch (const std::bad_alloc&) {
    release(block);
    return Error{Errc::no_memory, 0, "allocator(bookkeeping)", size};
  }
  used_ += size;
  return block->first;
}

Result<void> BestFit::deallocate(std::uint64_t begin) noexcept {
  const auto block = ranges_.find(begin);
  if (block == ranges_.end() || block->second.place.empty()) {
    return Error{Errc::invalid_argument, 0, "deallocate(not a live block: foreign, or freed twice?)", begin};
  }
  used_ -= block->second.size;
  release(block);
  return {};
}

std::uint64_t BestFit::free_tail() const noexcept {
  if (ranges_.empty()) return 0;
  const auto& [begin, last] = *std::prev(ranges_.end());
  return last.place.empty() ? last.size : 0;
}

}  // namespace opal::allocator
