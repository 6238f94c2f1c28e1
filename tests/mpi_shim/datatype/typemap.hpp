// SPDX-License-Identifier: Apache-2.0
// tests/mpi_shim/datatype/typemap.hpp — the standard's definition of a datatype, taken literally: a list of (element,
// displacement) pairs with optional bounds.  Slow and obvious; the engine is compared with it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "mpi_shim/datatype/element.hpp"

namespace mpi_shim::datatype::test {

struct Entry {
  Element element;
  std::int64_t displacement;
};

struct Typemap {
  std::vector<Entry> entries;
  std::optional<std::int64_t> lb_marker;
  std::optional<std::int64_t> ub_marker;

  static Typemap of(Element element) {
    const ElementInfo& facts = info(element);
    Typemap map;
    map.entries.push_back({facts.first, 0});
    if (facts.element_class == ElementClass::pair) map.entries.push_back({facts.second, facts.second_offset});
    return map;
  }

  static std::int64_t size_of(Element element) { return info(element).size; }

  std::int64_t size() const {
    std::int64_t sum = 0;
    for (const Entry& e : entries) sum += size_of(e.element);
    return sum;
  }
  std::int64_t true_lb() const {
    std::int64_t lowest = entries.empty() ? 0 : entries.front().displacement;
    for (const Entry& e : entries) lowest = std::min(lowest, e.displacement);
    return lowest;
  }
  std::int64_t true_ub() const {
    std::int64_t highest = entries.empty() ? 0 : entries.front().displacement + size_of(entries.front().element);
    for (const Entry& e : entries) highest = std::max(highest, e.displacement + size_of(e.element));
    return highest;
  }
  std::int64_t lb() const { return lb_marker ? *lb_marker : true_lb(); }
  std::int64_t ub() const {
    if (ub_marker) return *ub_marker;
    std::int64_t alignment = 1;
    for (const Entry& e : entries) alignment = std::max<std::int64_t>(alignment, info(e.element).alignment);
    std::int64_t ub = true_ub();
    while ((ub - true_lb()) % alignment != 0) ++ub;
    return ub;
  }
  std::int64_t extent() const { return ub() - lb(); }

  /// `count` copies of `part` one extent apart, from `offset` on.
  void add(const Typemap& part, std::int64_t count, std::int64_t offset) {
    const std::int64_t step = part.extent();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t shift = offset + i * step;
      for (const Entry& e : part.entries) entries.push_back({e.element, e.displacement + shift});
      if (part.lb_marker) lb_marker = std::min(lb_marker.value_or(*part.lb_marker + shift), *part.lb_marker + shift);
      if (part.ub_marker) ub_marker = std::max(ub_marker.value_or(*part.ub_marker + shift), *part.ub_marker + shift);
    }
  }

  /// One entry per byte of a message of `count` instances: its displacement in the buffer.
  std::vector<std::int64_t> byte_addresses(std::int64_t count) const {
    std::vector<std::int64_t> addresses;
    const std::int64_t step = extent();
    for (std::int64_t i = 0; i < count; ++i) {
      for (const Entry& e : entries) {
        for (std::int64_t b = 0; b < size_of(e.element); ++b) addresses.push_back(i * step + e.displacement + b);
      }
    }
    return addresses;
  }
};

}  // namespace mpi_shim::datatype::test
