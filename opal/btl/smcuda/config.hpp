// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/config.hpp — the variables of smcuda; host messages follow those of btl_sm.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/core/config.hpp"

namespace opal::btl::smcuda {

inline constexpr std::uint32_t kExclusivity = 700;  ///< above sm, whose work it does too

struct Config {
  bool ipc = true;
  std::chrono::milliseconds copy_timeout{30'000};
};

inline constexpr config::Var<Config> kVars[] = {
    {"ipc",
     &Config::ipc,
     {},
     "",
     config::Level::user,
     "Map other processes' GPU memory where the devices allow it; else all of it moves through host memory."},
    {"copy_timeout",
     &Config::copy_timeout,
     {.min = 1, .max = 3'600'000},
     "ms",
     config::Level::developer,
     "How long the end of a connection waits for its copies before it takes the device to hang; the buffers of copies "
     "that it gives up may still change."},
};
inline constexpr config::Group<Config> kGroup{"btl_smcuda", "Shared memory with GPU memory", kVars};

}  // namespace opal::btl::smcuda
