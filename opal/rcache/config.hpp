// SPDX-License-Identifier: Apache-2.0
// opal/rcache/config.hpp — the options of a registration cache, and the variables for some of them.
#pragma once
#include <cstdint>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::rcache {

/// When registrations that share pages are idle.
enum class Overlap : std::uint8_t {
  containing,     ///< each one when it has no leases
  page_refcount,  ///< when no lease, of any of them, uses one of its pages
};

struct Config {
  bool leave_pinned = true;
  ByteSize size_limit = 0_B;
  std::uint64_t count_limit = 0;  ///< most registrations at a time; 0: the device's limit.  No variable.
  ByteSize max_chunk = 2_MiB;
  Overlap overlap = Overlap::containing;  ///< no variable
};

inline constexpr config::Var<Config> kVars[] = {
    {"leave_pinned", &Config::leave_pinned, config::Level::user,
     "Keep memory registered, and GPU memory of other processes mapped, after the last use, until the room is needed."},
    {"size_limit", &Config::size_limit, config::Level::user,
     "Bytes that are registered with one device at a time, in use or not. 0: the device decides."},
    {"max_chunk",
     &Config::max_chunk,
     config::Level::tuner,
     "Bytes of a buffer that one transfer holds registered at a time; larger transfers move as a pipeline of pieces of "
     "half that size.",
     {.min = 4_KiB, .max = 1_GiB, .power_of_two = true}},
};
inline constexpr config::Group<Config> kGroup{"rcache_grdma", "Registration cache for local memory", kVars};

}  // namespace opal::rcache
