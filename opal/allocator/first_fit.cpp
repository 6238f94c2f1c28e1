// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/first_fit.hpp"

#include <bit>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "opal/core/bytes.hpp"

namespace opal::allocator {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

}  // namespace

FirstFit::Ranges::const_iterator FirstFit::containing(const Ranges& ranges, std::uint64_t address) noexcept {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  const auto candidate = std::prev(after);
  return address - candidate->first < candidate->second ? candidate : ranges.end();
}

bool FirstFit::overlaps(const Ranges& ranges, std::uint64_t begin, std::uint64_t size) noexcept {
  if (containing(ranges, begin) != ranges.end()) return true;
  const auto next = ranges.lower_bound(begin);
  return next != ranges.end() && next->first - begin < size;
}

void FirstFit::insert_free(Ranges::node_type node) noexcept {
  auto here = free_.insert(std::move(node)).position;
  if (const auto next = std::next(here); next != free_.end() && here->first + here->second == next->first) {
    here->second += next->second;
    free_.erase(next);
  }
  if (here == free_.begin()) return;
  if (const auto previous = std::prev(here); previous->first + previous->second == here->first) {
    previous->second += here->second;
    free_.erase(here);
  }
}

Result<void> FirstFit::add(std::uint64_t begin, std::uint64_t size) noexcept try {
  if (size == 0 || size > kMax - begin) return Error{Errc::invalid_argument, 0, "FirstFit::add(empty or wraps)", size};
  if (overlaps(free_, begin, size) || overlaps(live_, begin, size)) {
    return Error{Errc::invalid_argument, 0, "FirstFit::add(overlaps managed memory)", begin};
  }
  Ranges fresh{{begin, size}};
  insert_free(fresh.extract(fresh.begin()));
  managed_ += size;
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "FirstFit::add(bookkeeping)", size};
}

Result<void> FirstFit::remove(std::uint64_t begin, std::uint64_t size) noexcept try {
  const auto found = containing(free_, begin);
  if (size == 0 || found == free_.end() || size > found->first + found->second - begin) {
    const bool busy = size != 0 && overlaps(live_, begin, size);
    return Error{busy ? Errc::busy : Errc::invalid_argument, 0,
                 busy ? "FirstFit::remove(a live block is in the range)" : "FirstFit::remove(not managed)", begin};
  }
  const std::uint64_t front = begin - found->first;
  const std::uint64_t tail = found->second - front - size;
  if (tail > 0) free_.emplace_hint(std::next(found), begin + size, tail);  // may throw: first, nothing changed yet
  if (front > 0) {
    free_.find(found->first)->second = front;
  } else {
    free_.erase(found);
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
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const std::uint64_t gap = (alignment - (it->first & (alignment - 1))) & (alignment - 1);
    if (it->second < gap || it->second - gap < size) continue;
    const std::uint64_t begin = it->first + gap;
    const std::uint64_t tail = it->second - gap - size;
    Ranges fresh;  // every node is made before anything changes
    fresh.emplace(begin, size);
    if (tail > 0) free_.emplace_hint(std::next(it), begin + size, tail);
    if (gap > 0) {
      it->second = gap;
    } else {
      free_.erase(it);
    }
    live_.insert(fresh.extract(fresh.begin()));
    used_ += size;
    return begin;
  }
  return full;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "FirstFit::allocate(bookkeeping)", size};
}

Result<std::uint64_t> FirstFit::deallocate(std::uint64_t begin) noexcept {
  const auto found = live_.find(begin);
  if (found == live_.end()) return Error{Errc::invalid_argument, 0, why_not_live(begin), begin};
  const std::uint64_t size = found->second;
  used_ -= size;
  insert_free(live_.extract(found));
  return size;
}

const char* FirstFit::why_not_live(std::uint64_t begin) const noexcept {
  if (containing(live_, begin) != live_.end()) return "deallocate(address is inside a block, not its start)";
  if (containing(free_, begin) != free_.end()) return "deallocate(address is free already: freed twice?)";
  return "deallocate(foreign address)";
}

std::uint64_t FirstFit::free_before(std::uint64_t end) const noexcept {
  if (end == 0) return 0;
  const auto found = containing(free_, end - 1);
  return found != free_.end() && found->first + found->second == end ? found->second : 0;
}

}  // namespace opal::allocator
