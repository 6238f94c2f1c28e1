// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/config.hpp — the variables of smcuda.  Those of btl_sm apply, too.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/core/config/config.hpp"

namespace opal::btl::smcuda {

inline constexpr std::uint32_t kExclusivity = 700;  ///< above sm, which it includes

struct Config {
  bool ipc = true;

  // A constant, no variable sets it; tests use a smaller value.
  /// Time limit of waits for copies, for instance at the end of a connection.  After it the device counts as hung, and
  /// the copies end with timed_out; the device may still write to their buffers.
  std::chrono::milliseconds copy_timeout{30'000};
};

inline constexpr config::Var<Config> kVars[] = {
    {"ipc", &Config::ipc, config::Level::user,
     "Map the GPU memory of other processes if the devices allow it; otherwise it moves through host memory."},
};
inline constexpr config::Group<Config> kGroup{"btl_smcuda", "Shared memory with GPU memory", kVars};

}  // namespace opal::btl::smcuda
