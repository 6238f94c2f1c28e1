// SPDX-License-Identifier: Apache-2.0
// opal/memory/config.hpp — the variables of memory monitoring and their defaults.
#pragma once
#include <string>

#include "opal/core/config/config.hpp"

namespace opal::memory {

struct Config {
  std::string monitor = "auto";
};

inline constexpr config::Var<Config> kVars[] = {
    {"monitor",
     &Config::monitor,
     config::Level::user,
     "How unmapped memory is noticed: by libc's patched system calls (patcher, and auto), or by reports of the program "
     "(explicit: opal_memory_released). none: not at all, so a registration ends with its last use; the same if the "
     "patcher fails its self-test.",
     {.choices = "auto|patcher|explicit|none"}},
};
inline constexpr config::Group<Config> kGroup{"memory", "Memory monitoring", kVars};

}  // namespace opal::memory
