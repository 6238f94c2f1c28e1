// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/config.hpp — the variables of smcuda; host messages follow those of btl_sm.
#pragma once
#include <cstdint>

#include "opal/core/config.hpp"

namespace opal::btl::smcuda {

inline constexpr std::uint32_t kExclusivity = 700;  ///< above sm, whose work it does too

struct Config {
  bool ipc = true;
};

inline constexpr config::Var<Config> kVars[] = {
    {"ipc",
     &Config::ipc,
     {},
     "",
     config::Level::user,
     "Map other processes' GPU memory where the devices allow it; else all of it moves through host memory."},
};
inline constexpr config::Group<Config> kGroup{"btl_smcuda", "Shared memory with GPU memory", kVars};

}  // namespace opal::btl::smcuda
