// SPDX-License-Identifier: Apache-2.0
// opal/rcache/rgpusm_config.hpp — the variables of the cache of remote GPU memory; the only place of these defaults.
#pragma once
#include <cstdint>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::rcache {

struct RgpusmConfig {
  bool leave_pinned = true;
  ByteSize size_limit = 0_B;
  std::uint64_t count_limit = 0;
};

inline constexpr config::Var<RgpusmConfig> kRgpusmVars[] = {
    {"leave_pinned",
     &RgpusmConfig::leave_pinned,
     {},
     "",
     config::Level::user,
     "Keep another process's GPU memory mapped after its last use, until the room is needed."},
    {"size_limit",
     &RgpusmConfig::size_limit,
     {},
     "bytes",
     config::Level::user,
     "Bytes of one peer's GPU memory that are mapped at a time, in use or not; 0 leaves it to the driver."},
    {"count_limit",
     &RgpusmConfig::count_limit,
     {},
     "allocations",
     config::Level::user,
     "Allocations of one peer that are mapped at a time, in use or not; 0 leaves it to the driver."},
};
inline constexpr config::Group<RgpusmConfig> kRgpusmGroup{"rcache_rgpusm", "Cache of remote GPU memory", kRgpusmVars};

}  // namespace opal::rcache
