// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/internals.hpp — the parts of a module whose state tests examine.
#pragma once
#include <algorithm>

#include "opal/btl/sm/module.hpp"

namespace opal::btl::sm {

struct TestAccess {
  static const FastBoxes& fast_boxes(const Module& module) noexcept { return module.receiver_.fast_boxes(); }
  static std::size_t mapped_pools(const SharedMechanism& shared) noexcept {
    return static_cast<std::size_t>(
        std::ranges::count_if(shared.entries_, [](const auto& entry) { return static_cast<bool>(entry.pool.map); }));
  }
};

inline const FastBoxes& fast_boxes(const btl::Module& module) noexcept {
  return TestAccess::fast_boxes(static_cast<const Module&>(module));
}

/// Whether messages to this peer may go through a fast box.
inline bool has_fast_box(const btl::Endpoint& to) noexcept {
  return static_cast<const Endpoint&>(to).sending.fast_box.on();
}

/// Number of the peer's shared pools that are mapped here.
inline std::size_t mapped_pools(const btl::Endpoint& of) noexcept {
  const SharedMechanism* const shared = static_cast<const Endpoint&>(of).memory().shared;
  return shared != nullptr ? TestAccess::mapped_pools(*shared) : 0;
}

}  // namespace opal::btl::sm
