// SPDX-License-Identifier: Apache-2.0
// opal/core/text.hpp — the few operations on text that parsers share.  Views stay valid as long as their argument.
// Threads: pure functions.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// The parts of `text` between separators; one (maybe empty) more than there are separators.
OPAL_EXPORT std::vector<std::string_view> split(std::string_view text, char separator);

/// `text` without the blanks at its ends.
OPAL_EXPORT std::string_view trimmed(std::string_view text) noexcept;

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to turn `a` into `b`.
OPAL_EXPORT std::size_t edit_distance(std::string_view a, std::string_view b);

/// The element of `known` nearest to `name`, or empty when none is near enough to be what was meant.
OPAL_EXPORT std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace opal
