// SPDX-License-Identifier: Apache-2.0
// runtime/options/timeouts.hpp — how long launcher and daemons wait for each other.
#pragma once
#include <chrono>

namespace runtime::daemon {

struct Timeouts {
  std::chrono::milliseconds silence{};  ///< of a daemon, until it counts as out of reach
  std::chrono::milliseconds start{};    ///< of a daemon that is being started, until it must have come

  /// Until a daemon that has come must have its place in the tree: those above it are waited for.
  [[nodiscard]] std::chrono::milliseconds place() const noexcept { return start + silence; }
};

inline double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace runtime::daemon
