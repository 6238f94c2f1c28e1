// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/wire.hpp — the messages between the two processes of a measurement.
#pragma once
#include <cstdint>

#include "opal/btl/tag.hpp"

namespace opal::perf {

inline constexpr Tag kEcho = kUserTags.first;        ///< answered by the same bytes under kAnswer
inline constexpr Tag kStream = kUserTags.first + 1;  ///< counted; answered only when `want_answer`
inline constexpr Tag kAnswer = kUserTags.first + 2;
inline constexpr Tag kStop = kUserTags.first + 3;   ///< the responder leaves its loop
inline constexpr Tag kCopy = kUserTags.first + 4;   ///< the responder copies the payload to its region, then answers
inline constexpr Tag kFetch = kUserTags.first + 5;  ///< payload: bytes that it gets from our region, then it answers

/// Header of every message of a measurement.
struct Header {
  std::uint64_t want_answer;  ///< 0 or 1
};
static_assert(sizeof(Header) == 8);

/// What the processes tell each other before they connect.
struct Hello {
  std::uint64_t region_address;
  std::uint64_t region_size;
  std::uint32_t address_size;
  std::uint32_t key_size;
  // address bytes, key bytes
};
static_assert(sizeof(Hello) == 24);

}  // namespace opal::perf
