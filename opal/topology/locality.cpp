// SPDX-License-Identifier: Apache-2.0
#include "opal/topology/locality.hpp"

#include <charconv>
#include <optional>
#include <vector>

#include "opal/core/text.hpp"

namespace opal::topology {
namespace {

struct IndexRange {
  std::uint32_t first;
  std::uint32_t last;
};

std::optional<std::uint32_t> parse_index(std::string_view text) {
  std::uint32_t index = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return index;
}

/// "0-3,5" as ranges; empty when any of it is wrong.
std::vector<IndexRange> parse_list(std::string_view text) {
  std::vector<IndexRange> ranges;
  for (const std::string_view item : split(text, ',')) {
    const std::size_t dash = item.find('-');
    const std::optional<std::uint32_t> first = parse_index(item.substr(0, dash));
    const std::optional<std::uint32_t> last =
        dash == std::string_view::npos ? first : parse_index(item.substr(dash + 1));
    if (!first || !last || *last < *first) return {};
    ranges.push_back({*first, *last});
  }
  return ranges;
}

/// The indexes in `locality` of the part that begins with `prefix`.
std::vector<IndexRange> part_of(std::string_view locality, std::string_view prefix) {
  for (const std::string_view part : split(locality, ':')) {
    if (part.starts_with(prefix)) return parse_list(part.substr(prefix.size()));
  }
  return {};
}

bool overlap(const std::vector<IndexRange>& a, const std::vector<IndexRange>& b) {
  for (const IndexRange& left : a) {
    for (const IndexRange& right : b) {
      if (left.first <= right.last && right.first <= left.last) return true;
    }
  }
  return false;
}

}  // namespace

const char* name(Shared shared) noexcept {
  switch (shared) {
    case Shared::host: return "host";
    case Shared::package: return "package";
    case Shared::numa_node: return "NUMA node";
    case Shared::l3_cache: return "L3 cache";
    case Shared::l2_cache: return "L2 cache";
    case Shared::core: return "core";
  }
  return "unknown";
}

Shared nearest_shared(std::string_view a, std::string_view b) {
  constexpr std::size_t kLongest = 4096;  // bounds the work a peer's text can cause
  Shared nearest = Shared::host;
  if (a.size() > kLongest || b.size() > kLongest) return nearest;
  for (const LocalityPart& part : kLocalityParts) {
    if (overlap(part_of(a, part.prefix), part_of(b, part.prefix))) nearest = part.shared;
  }
  return nearest;
}

}  // namespace opal::topology
