// SPDX-License-Identifier: Apache-2.0
// opal/core/text.hpp — operations on text for parsers.  Returned views point into the arguments.
// Threads: pure functions.
#pragma once
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// The parts of `text` between separators, empty ones included: one more than there are separators.
OPAL_EXPORT std::vector<std::string_view> split(std::string_view text, char separator);

/// The elements of a list of the user: as split(), but an empty text has none, and a separator at the end adds none.
OPAL_EXPORT std::vector<std::string_view> elements(std::string_view text, char separator);

/// The number that the whole of `text` is, in decimal; nullopt if it is none or does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) noexcept {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
}

/// `text` without the blanks (space, tab, CR, LF) at its ends.
OPAL_EXPORT std::string_view trimmed(std::string_view text) noexcept;

/// The element of `known` that a user who wrote `name` probably meant: at most a third of the letters differ, or `name`
/// is its beginning.  Empty if there is none.
OPAL_EXPORT std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace opal
