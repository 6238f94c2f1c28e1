// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/layout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace mpi_shim::datatype {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();  // items or blocks of a layout
constexpr std::uint32_t kInlineItems = 16;   // a part with more items becomes a nested sequence instead of copied items
constexpr std::size_t kShortestVector = 16;  // fewer runs at equal distances are faster as a list
constexpr std::size_t kShortestLoop = 4;     // the same limit for items that are not runs

bool same_shape(const Item& a, const Item& b) {
  return a.body == b.body && a.bytes == b.bytes && a.count == b.count && a.stride == b.stride && a.first == b.first &&
         a.last == b.last;
}

// The number of items from `first` on that have the same shape and equal distances; at least 1.
std::size_t progression(const std::vector<Item>& sequence, std::size_t first) {
  std::size_t end = first + 1;
  std::int64_t step = 0;
  for (; end < sequence.size() && same_shape(sequence[first], sequence[end]); ++end) {
    std::int64_t distance = 0;
    if (__builtin_sub_overflow(sequence[end].offset, sequence[end - 1].offset, &distance)) break;
    if (end == first + 1) {
      step = distance;
    } else if (distance != step) {
      break;
    }
  }
  return end - first;
}

// A block length that divides all runs, if it is faster to cut the runs into blocks of equal length: each of many runs
// of unequal lengths costs a mispredicted branch.  0 if that needs more than twice as many blocks.
std::int64_t equal_parts(const Item* first, const Item* last) {
  constexpr std::int64_t kManyRuns = 32;
  std::int64_t unit = 0;
  std::int64_t bytes = 0;
  for (const Item* run = first; run != last; ++run) {
    unit = std::gcd(unit, run->bytes);
    bytes += run->bytes;
  }
  const std::int64_t runs = last - first;
  if (unit * runs == bytes) return unit;  // equal already
  return runs >= kManyRuns && bytes / unit <= 2 * runs ? unit : 0;
}

// Whether an outermost item refers to blocks or items of its layout.
bool refers_to_others(const Layout& part) {
  return std::any_of(part.items.begin() + part.root_first, part.items.begin() + part.root_last,
                     [](const Item& item) { return item.body != Body::block; });
}

}  // namespace

Layout Layout::of_block(std::int64_t length) {
  Layout layout;
  if (length == 0) return layout;
  Item run;
  run.bytes = length;
  layout.items.push_back(run);
  layout.root_last = 1;
  layout.depth = 1;
  layout.bytes = length;
  return layout;
}

bool repeat_in_place(Item& item, std::int64_t count, std::int64_t stride) noexcept {
  if (count == 1) return true;
  if (item.count == 1) {
    item.count = count;
    item.stride = stride;
  } else {
    std::int64_t span = 0;
    if (__builtin_mul_overflow(item.count, item.stride, &span) || span != stride) return false;
    item.count *= count;
  }
  if (item.body == Body::block && item.stride == item.bytes) {
    item.bytes *= item.count;
    item.count = 1;
    item.stride = 0;
  }
  return true;
}

LayoutBuilder::Origin LayoutBuilder::import(const Layout& part) {
  if (const auto known = imported_.find(&part); known != imported_.end()) return known->second;
  if (out_.items.size() + part.items.size() > kMost || out_.blocks.size() + part.blocks.size() > kMost) {
    overflowed_ = true;
    return {0, 0};
  }
  const Origin origin{static_cast<std::uint32_t>(out_.items.size()), static_cast<std::uint32_t>(out_.blocks.size())};
  out_.blocks.insert(out_.blocks.end(), part.blocks.begin(), part.blocks.end());
  for (const Item& item : part.items) out_.items.push_back(rebased(item, origin));
  imported_.emplace(&part, origin);
  return origin;
}

Item LayoutBuilder::rebased(Item item, Origin origin) noexcept {
  const std::uint32_t shift = item.body == Body::list ? origin.blocks : item.body == Body::sequence ? origin.items : 0;
  item.first += shift;
  item.last += shift;
  return item;
}

void LayoutBuilder::append(const Item& item) {
  // A short list becomes single runs again, which optimise() may join with their new neighbours.
  if (item.body == Body::list && item.count == 1 && item.last - item.first <= kInlineItems) {
    for (std::uint32_t i = item.first; i < item.last; ++i) {
      Item run;
      run.offset = item.offset + out_.blocks[i].offset;
      run.bytes = out_.blocks[i + 1].begin - out_.blocks[i].begin;
      sequence_.push_back(run);
    }
    return;
  }
  sequence_.push_back(item);
}

void LayoutBuilder::add(const Bounds& bounds, const Layout& part, std::int64_t count, std::int64_t stride,
                        std::int64_t offset) {
  overflowed_ = overflowed_ || !bounds_.add(bounds, count, stride, offset);
  if (count == 0 || part.bytes == 0 || overflowed_) return;
  const bool nested = part.root_items() > 1 && (count > 1 || part.root_items() > kInlineItems);
  const Origin origin = nested || refers_to_others(part) ? import(part) : Origin{0, 0};
  if (overflowed_) return;
  if (nested) {
    Item whole;
    whole.offset = offset;
    whole.bytes = part.bytes;
    whole.first = part.root_first + origin.items;
    whole.last = part.root_last + origin.items;
    whole.depth = part.depth + 1;
    whole.body = Body::sequence;
    sequence_.push_back(repeated(whole, count, stride));
    return;
  }
  for (std::uint32_t i = part.root_first; i < part.root_last; ++i) {
    Item item = rebased(part.items[i], origin);
    item.offset += offset;
    append(repeated(item, count, stride));
  }
}

// Returns an item of `count` repetitions of `item`.
Item LayoutBuilder::repeated(Item item, std::int64_t count, std::int64_t stride) {
  if (repeat_in_place(item, count, stride)) return item;
  const std::int64_t offset = std::exchange(item.offset, 0);
  Item loop = nest({item});
  loop.offset = offset;
  loop.stride = stride;
  loop.count = count;
  return loop;
}

// Stores `sequence` in out_ and returns an item that repeats it once.
Item LayoutBuilder::nest(const std::vector<Item>& sequence) {
  Item whole;
  if (out_.items.size() + sequence.size() > kMost) {
    overflowed_ = true;
    return whole;
  }
  whole.body = Body::sequence;
  whole.first = static_cast<std::uint32_t>(out_.items.size());
  for (Item item : sequence) {
    item.begin = whole.bytes;
    whole.bytes += item.total_bytes();
    whole.depth = std::max(whole.depth, 1 + item.depth);
    out_.items.push_back(item);
  }
  whole.last = static_cast<std::uint32_t>(out_.items.size());
  return whole;
}

void LayoutBuilder::repeat(std::int64_t count, std::int64_t stride) {
  Bounds repeated_bounds;
  overflowed_ = overflowed_ || !repeated_bounds.add(bounds_, count, stride, 0);
  if (overflowed_) return;
  bounds_ = repeated_bounds;
  if (count == 0) {
    sequence_.clear();
    return;
  }
  optimise(sequence_);
  if (count == 1 || sequence_.empty() || overflowed_) return;
  const Item whole = sequence_.size() == 1 ? sequence_.front() : nest(sequence_);
  sequence_.assign(1, repeated(whole, count, stride));
}

void LayoutBuilder::shift(std::int64_t offset) noexcept {
  Bounds moved;
  overflowed_ = overflowed_ || !moved.add(bounds_, 1, 0, offset);
  if (overflowed_) return;
  bounds_ = moved;
  for (Item& item : sequence_) item.offset += offset;
}

// Joins neighbours: adjacent runs to one run, items at equal distances to one repeated item, other runs to lists.
void LayoutBuilder::optimise(std::vector<Item>& sequence) {
  std::vector<Item> joined;
  joined.reserve(sequence.size());
  for (const Item& item : sequence) {
    if (!joined.empty() && item.is_run() && joined.back().is_run() &&
        joined.back().offset + joined.back().bytes == item.offset) {
      joined.back().bytes += item.bytes;
    } else {
      joined.push_back(item);
    }
  }
  sequence.clear();
  std::size_t i = 0;
  std::size_t loose = 0;  // joined[loose, i) are runs that are not in `sequence` yet
  while (i < joined.size()) {
    const std::size_t length = progression(joined, i);
    const std::size_t shortest = joined[i].is_run() ? kShortestVector : kShortestLoop;
    if (length >= shortest || (length > 1 && length == joined.size())) {
      flush_runs(joined, loose, i, sequence);
      const std::int64_t step = joined[i + 1].offset - joined[i].offset;
      sequence.push_back(repeated(joined[i], static_cast<std::int64_t>(length), step));
      i += length;
      loose = i;
    } else if (!joined[i].is_run()) {
      flush_runs(joined, loose, i, sequence);
      sequence.push_back(joined[i]);
      loose = ++i;
    } else {
      ++i;
    }
  }
  flush_runs(joined, loose, i, sequence);
}

void LayoutBuilder::flush_runs(const std::vector<Item>& sequence, std::size_t first, std::size_t last,
                               std::vector<Item>& out) {
  if (first == last) return;
  if (last - first == 1) {
    out.push_back(sequence[first]);
    return;
  }
  if (out_.blocks.size() + 2 * (last - first) >= kMost) {
    overflowed_ = true;
    return;
  }
  Item list;
  list.body = Body::list;
  list.first = static_cast<std::uint32_t>(out_.blocks.size());
  list.each = equal_parts(sequence.data() + first, sequence.data() + last);
  for (; first < last; ++first) {
    const Item& run = sequence[first];
    const std::int64_t part = list.each == 0 ? run.bytes : list.each;
    for (std::int64_t within = 0; within < run.bytes; within += part) {
      out_.blocks.push_back({run.offset + within, list.bytes});
      list.bytes += part;
    }
  }
  list.last = static_cast<std::uint32_t>(out_.blocks.size());
  out_.blocks.push_back({0, list.bytes});
  out.push_back(list);
}

Layout LayoutBuilder::finish() {
  optimise(sequence_);
  if (!sequence_.empty() && !overflowed_) {
    const Item whole = nest(sequence_);
    out_.root_first = whole.first;
    out_.root_last = whole.last;
    out_.bytes = whole.bytes;
    out_.depth = whole.depth - 1;
  }
  return std::move(out_);
}

}  // namespace mpi_shim::datatype
