// SPDX-License-Identifier: Apache-2.0
// opal/mpool/config.hpp — the variables of memory pools and their defaults.
#pragma once
#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::mpool {

struct Config {
  ByteSize shared_size = 16_GiB;
  bool guard = false;
};

inline constexpr config::Var<Config> kVars[] = {
    {"shared_size",
     &Config::shared_size,
     config::Level::tuner,
     "Address space of a shared pool; memory is committed only as it is used.",
     {.min = 2_MiB, .max = ByteSize{std::uint64_t{1} << 46}}},
    {"guard", &Config::guard, config::Level::user,
     "Blocks of opal_mem_alloc have red zones, freed ones are poisoned and kept for a while, and what was overrun, "
     "written after its end or not freed is said in the log; read at the first block of a kind."},
};
inline constexpr config::Group<Config> kGroup{"mpool", "Memory pools", kVars};

}  // namespace opal::mpool
