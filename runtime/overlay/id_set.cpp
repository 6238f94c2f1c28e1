// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlay/id_set.hpp"

#include <algorithm>

namespace runtime::overlay {

void IdSet::add(Range range) {
  if (range.empty()) return;
  // Those that touch the new range, on either side, become one with it.
  const auto first = std::lower_bound(ranges_.begin(), ranges_.end(), range.begin,
                                      [](const Range& each, Id begin) { return each.end < begin; });
  auto last = first;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  ranges_.insert(ranges_.erase(first, last), range);
}

void IdSet::add(const IdSet& other) {
  for (const Range& range : other.ranges_) add(range);
}

void IdSet::remove(Range range) {
  if (range.empty()) return;
  std::vector<Range> left;
  for (const Range& each : ranges_) {
    if (!each.intersects(range)) {
      left.push_back(each);
      continue;
    }
    if (each.begin < range.begin) left.push_back({each.begin, range.begin});
    if (range.end < each.end) left.push_back({range.end, each.end});
  }
  ranges_ = std::move(left);
}

void IdSet::remove(const IdSet& other) {
  for (const Range& range : other.ranges_) {
    if (intersects(range)) remove(range);
  }
}

bool IdSet::intersects(Range range) const noexcept {
  const auto first = std::upper_bound(ranges_.begin(), ranges_.end(), range.begin,
                                      [](Id begin, const Range& each) { return begin < each.end; });
  return first != ranges_.end() && first->intersects(range);
}

bool IdSet::intersects(const IdSet& other) const noexcept {
  return std::any_of(other.ranges_.begin(), other.ranges_.end(), [this](Range range) { return intersects(range); });
}

IdSet IdSet::within(Range range) const {
  IdSet inside;
  for (const Range& each : ranges_) {
    if (each.intersects(range)) inside.add({std::max(each.begin, range.begin), std::min(each.end, range.end)});
  }
  return inside;
}

bool IdSet::valid(Id count) const noexcept {
  Id next = 0;
  for (const Range& range : ranges_) {
    if (range.empty() || range.end > count || range.begin < next) return false;
    next = range.end + 1;
  }
  return true;
}

}  // namespace runtime::overlay
