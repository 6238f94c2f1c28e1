// SPDX-License-Identifier: Apache-2.0
// opal/mpool/config.hpp — the variables of memory pools and their defaults.
#pragma once
#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::mpool {

struct Config {
  ByteSize shared_size = 16_GiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"shared_size",
     &Config::shared_size,
     config::Level::tuner,
     "Address space of a shared pool; memory is committed only as it is used.",
     {.min = 2_MiB, .max = ByteSize{std::uint64_t{1} << 46}}},
};
inline constexpr config::Group<Config> kGroup{"mpool", "Memory pools", kVars};

}  // namespace opal::mpool
