// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/work_id.hpp — what the 64 bits of a work request's name mean: sends are numbered by their queue pair's
// user, receives name their buffer.
#pragma once
#include <cstdint>

namespace opal::btl::verbs {

inline constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;

constexpr std::uint64_t receive_id(std::uint32_t index) noexcept { return kReceive | index; }
constexpr bool is_receive(std::uint64_t id) noexcept { return (id & kReceive) != 0; }
constexpr std::uint32_t index_of(std::uint64_t id) noexcept { return static_cast<std::uint32_t>(id); }

}  // namespace opal::btl::verbs
