// SPDX-License-Identifier: Apache-2.0
// opal/core/text.hpp — the few operations on text that parsers share.  Views stay valid as long as their argument.
// Threads: pure functions.
#pragma once
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// The parts of `text` between separators; one (maybe empty) more than there are separators.
OPAL_EXPORT std::vector<std::string_view> split(std::string_view text, char separator);

/// `text` without the blanks at its ends.
OPAL_EXPORT std::string_view trimmed(std::string_view text) noexcept;

}  // namespace opal
