// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlay/tree.hpp"

#include <algorithm>

namespace runtime::overlay {
namespace {

/// Part number `part` of `rest` members after `begin`, cut into `radix` parts; the first ones are larger by one.
Range part_of(Id begin, Id rest, unsigned radix, Id part) noexcept {
  const Id size = rest / radix;
  const Id larger = rest % radix;
  const Id from = begin + part * size + std::min(part, larger);
  return {from, from + size + (part < larger ? 1 : 0)};
}

/// Which part holds the member at `offset` after the first.
Id part_with(Id offset, Id rest, unsigned radix) noexcept {
  const Id size = rest / radix;
  const Id larger = rest % radix;
  const Id in_larger = larger * (size + 1);
  return offset < in_larger ? offset / (size + 1) : larger + (offset - in_larger) / size;
}

}  // namespace

Tree::Place Tree::find(Id id) const noexcept {
  Place place{{0, count_}, 0};
  while (place.range.begin != id) {
    const Id first = place.range.begin + 1;
    const Id rest = place.range.end - first;
    place.parent = place.range.begin;
    place.range = part_of(first, rest, radix_, part_with(id - first, rest, radix_));
  }
  return place;
}

std::vector<Range> Tree::children(Id id) const {
  const Range own = subtree(id);
  const Id rest = own.end - own.begin - 1;
  std::vector<Range> children;
  for (Id part = 0; part < std::min<Id>(radix_, rest); ++part) {
    children.push_back(part_of(own.begin + 1, rest, radix_, part));
  }
  return children;
}

}  // namespace runtime::overlay
