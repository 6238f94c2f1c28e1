// SPDX-License-Identifier: Apache-2.0
#include "runtime/options/number_list.hpp"

#include <fmt/format.h>

namespace runtime::launch {

std::string list_numbers(std::string_view what, std::span<const std::uint32_t> numbers) {
  std::string text = fmt::format("{}{} ", what, numbers.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (i > 0) text += ',';
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace runtime::launch
