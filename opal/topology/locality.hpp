// SPDX-License-Identifier: Apache-2.0
// opal/topology/locality.hpp — where a process runs, as text that peers of one host exchange and compare.
//   "SK0:NM0:L30:L20:CR2" = package, NUMA node, L3, L2 and core, each a list of indexes such as 0-3,5.
// A peer's text is data to check: a part that does not parse counts as not shared.  Threads: pure functions.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "opal/core/export.hpp"

namespace opal::topology {

/// The closest thing two places on one host share, farthest first.
enum class Shared : std::uint8_t { host, package, numa_node, l3_cache, l2_cache, core };

/// "host", "package", "NUMA node", "L3 cache", "L2 cache" or "core".
OPAL_EXPORT const char* name(Shared shared) noexcept;

/// One kind of part and how its text begins.
struct LocalityPart {
  Shared shared;
  std::string_view prefix;
};
inline constexpr std::array kLocalityParts{
    LocalityPart{Shared::package, "SK"},  LocalityPart{Shared::numa_node, "NM"}, LocalityPart{Shared::l3_cache, "L3"},
    LocalityPart{Shared::l2_cache, "L2"}, LocalityPart{Shared::core, "CR"},
};

/// What the places of two Topology::locality() texts of one host share.
OPAL_EXPORT Shared nearest_shared(std::string_view a, std::string_view b);

}  // namespace opal::topology
