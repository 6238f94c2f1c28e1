// SPDX-License-Identifier: Apache-2.0
// opal/btl/peer_id.hpp — the identity of one Context: 128 random bits, never reused, the same on every transport.  It
// shows that endpoints of different modules lead to the same Context.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "opal/core/export.hpp"

namespace opal {

struct PeerId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr auto operator<=>(const PeerId&, const PeerId&) = default;

  /// A new identity from the kernel's random source.  Aborts the process if the source fails.
  OPAL_EXPORT static PeerId random() noexcept;
};

/// The first 8 hexadecimal digits, for log and error messages.
OPAL_EXPORT std::string to_string(const PeerId& id);

}  // namespace opal

template <>
struct std::hash<opal::PeerId> {
  std::size_t operator()(const opal::PeerId& id) const noexcept { return id.low; }  // already random
};
