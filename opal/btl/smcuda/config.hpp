// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/config.hpp — the variables of smcuda; host messages follow those of btl_sm.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/core/config/config.hpp"

namespace opal::btl::smcuda {

inline constexpr std::uint32_t kExclusivity = 700;  ///< above sm, whose work it does too

struct Config {
  bool ipc = true;

  // Not variables: constants, which tests make smaller.
  /// How long the end of a connection waits for its copies before it takes the device to hang; the buffers of copies
  /// that it gives up may still change.
  std::chrono::milliseconds copy_timeout{30'000};
};

inline constexpr config::Var<Config> kVars[] = {
    {"ipc", &Config::ipc, config::Level::user,
     "Map the GPU memory of other processes if the devices allow it; otherwise it moves through host memory."},
};
inline constexpr config::Group<Config> kGroup{"btl_smcuda", "Shared memory with GPU memory", kVars};

}  // namespace opal::btl::smcuda
