// SPDX-License-Identifier: Apache-2.0
// runtime/options/number_list.hpp — ascending numbers as people read them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace runtime::launch {

/// "cpu 3", "ranks 0-2,7".  `what` is one of them; `numbers` ascend.
std::string list_numbers(std::string_view what, std::span<const std::uint32_t> numbers);

}  // namespace runtime::launch
