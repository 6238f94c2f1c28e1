// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/device/operation.hpp — what an operation of the interface has in common.  Its address is the
// user_ptr of the operation's event.
#pragma once
#include <cstdint>

namespace opal::btl::portals4 {

struct Operation {
  enum class Kind : std::uint8_t { message, one_sided };
  explicit Operation(Kind of) noexcept : kind(of) {}
  Kind kind;
};

}  // namespace opal::btl::portals4
