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
     "Debug blocks of opal_mem_alloc: red zones around them, and freed blocks are poisoned and kept for a while. "
     "Writes outside of blocks, writes to freed blocks, and blocks that are not freed are logged. Read at the first "
     "block of a kind."},
};
inline constexpr config::Group<Config> kGroup{"mpool", "Memory pools", kVars};

}  // namespace opal::mpool
