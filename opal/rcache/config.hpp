// SPDX-License-Identifier: Apache-2.0
// opal/rcache/config.hpp — the variables of the cache for local memory; the only place where these defaults are
// written.
#pragma once
#include <cstdint>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::rcache {

struct GrdmaConfig {
  bool leave_pinned = true;
  ByteSize size_limit = 0_B;
  std::uint64_t count_limit = 0;
  ByteSize max_chunk = 2_MiB;
};

inline constexpr config::Var<GrdmaConfig> kGrdmaVars[] = {
    {"leave_pinned",
     &GrdmaConfig::leave_pinned,
     {},
     "",
     config::Level::user,
     "Keep memory registered after its last use, until the room is needed."},
    {"size_limit",
     &GrdmaConfig::size_limit,
     {},
     "bytes",
     config::Level::user,
     "Bytes registered at a time with one device, in use or not; 0 leaves it to the device."},
    {"count_limit",
     &GrdmaConfig::count_limit,
     {},
     "registrations",
     config::Level::user,
     "Registrations with one device at a time, in use or not; 0 leaves it to the device."},
    {"max_chunk",
     &GrdmaConfig::max_chunk,
     {.min = 4_KiB, .max = 1_GiB, .power_of_two = true},
     "bytes",
     config::Level::tuner,
     "Pieces in which large buffers are registered while they are transferred."},
};
inline constexpr config::Group<GrdmaConfig> kGrdmaGroup{"rcache_grdma", "Registration cache for local memory",
                                                        kGrdmaVars};

}  // namespace opal::rcache
