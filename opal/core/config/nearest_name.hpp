// SPDX-License-Identifier: Apache-2.0
// opal/core/config/nearest_name.hpp — "did you mean ...": the known name that a mistyped one is closest to.
// Threads: pure functions.
#pragma once
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to turn `a` into `b`.
OPAL_EXPORT std::size_t edit_distance(std::string_view a, std::string_view b);

/// The element of `known` nearest to `name`, or empty when none is near enough to be what was meant.
OPAL_EXPORT std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace opal
