// SPDX-License-Identifier: Apache-2.0
// runtime/options/config.hpp — the configuration variables of the launcher.  An option of the command line overrides
// the variable of the same meaning.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/core/config/config.hpp"

namespace runtime::launch {

struct Config {
  std::uint32_t radix = 16;
  std::uint32_t agents = 64;
  std::chrono::milliseconds daemon_timeout{30'000};
};

inline constexpr opal::config::Var<Config> kVars[] = {
    {"radix",
     &Config::radix,
     opal::config::Level::tuner,
     "Children of each daemon in the tree that connects them (opalrun --radix).",
     {.min = 1, .max = 4096},
     "children"},
    {"agents",
     &Config::agents,
     opal::config::Level::tuner,
     "Launch agents that start daemons at the same time (opalrun --agents).",
     {.min = 1, .max = 1U << 20},
     "agents"},
    {"daemon_timeout",
     &Config::daemon_timeout,
     opal::config::Level::user,
     "A host whose daemon is silent for so long is lost (opalrun --daemon-timeout).",
     {.min = 100, .max = 86'400'000}},
};
inline constexpr opal::config::Group<Config> kGroup{"runtime", "Launcher", kVars};

}  // namespace runtime::launch
