// SPDX-License-Identifier: Apache-2.0
// tests/memory/table_ranges.hpp — all ranges of a table of mappings, in ascending order of address.
#pragma once
#include <vector>

#include "opal/memory/address_space/mapping_table.hpp"

namespace opal::memory {

/// Appends the ranges of the subtree `node`.
inline void append_ranges(const SharedMappings& shared, std::uint32_t node, std::vector<MappedRange>& all) {
  if (node == 0) return;
  constexpr std::uint64_t kAccessBits = 4095;
  const SharedMappings::Entry& entry = shared.entries[node];
  append_ranges(shared, entry.left, all);
  const std::uint64_t word = entry.end_and_access;
  all.push_back({{entry.begin, word & ~kAccessBits}, static_cast<std::uint32_t>(word & kAccessBits)});
  append_ranges(shared, entry.right, all);
}

/// Requires: no thread changes the table meanwhile.
inline std::vector<MappedRange> ranges_of(const SharedMappings& shared) {
  std::vector<MappedRange> all;
  all.reserve(4096);  // before the walk, because an allocation may change the table
  append_ranges(shared, shared.root, all);
  return all;
}

}  // namespace opal::memory
