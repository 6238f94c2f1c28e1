// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/config.hpp — the variables of smcuda.  Those of btl_sm apply, too.
#pragma once
#include <cstdint>

#include "opal/core/config/config.hpp"

namespace opal::btl::smcuda {

inline constexpr std::uint32_t kExclusivity = 700;  ///< above sm, which it includes

struct Config {
  bool ipc = true;
};

inline constexpr config::Var<Config> kVars[] = {
    {"ipc", &Config::ipc, config::Level::user,
     "Map the GPU memory of other processes if the devices allow it; otherwise it moves through host memory."},
};
inline constexpr config::Group<Config> kGroup{"btl_smcuda", "Shared memory with GPU memory", kVars};

}  // namespace opal::btl::smcuda
