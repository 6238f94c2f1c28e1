// SPDX-License-Identifier: Apache-2.0
#include "opal/core/text.hpp"

#include <algorithm>

namespace opal {
namespace {

/// The number of insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the usual table (optimal string alignment: a swap of neighbours counts one).
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> elements(std::string_view text, char separator) {
  std::vector<std::string_view> parts = split(text, separator);
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& known) {
  // At most a third of the letters may be wrong, since other suggestions mislead.  kLongest bounds the time.
  constexpr std::size_t kLongest = 128;
  if (name.size() > kLongest) return {};
  std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
  std::string_view nearest;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance > allowed || (distance == allowed && !nearest.empty())) continue;
    allowed = distance;
    nearest = candidate;
  }
  if (!nearest.empty()) return nearest;

  // Users also write abbreviations: "deb" for "debug".
  constexpr std::size_t kShortestStart = 3;
  for (const std::string_view candidate : known) {
    if (name.size() >= kShortestStart && candidate.starts_with(name)) return candidate;
  }
  return {};
}

}  // namespace opal
