// SPDX-License-Identifier: Apache-2.0
// opal/rcache/config.hpp — the variables of the cache for local memory; the only place where these defaults are
// written.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::rcache {

struct Config {
  bool leave_pinned = true;
  ByteSize size_limit = 0_B;
  std::uint64_t count_limit = 0;
  ByteSize max_chunk = 2_MiB;
  std::string overlap = "containing";
};

inline constexpr config::Var<Config> kVars[] = {
    {"leave_pinned",
     &Config::leave_pinned,
     {},
     "",
     config::Level::user,
     "Keep memory registered after its last use, until the room is needed."},
    {"size_limit",
     &Config::size_limit,
     {},
     "bytes",
     config::Level::user,
     "Bytes registered at a time with one device, in use or not; 0 leaves it to the device."},
    {"count_limit",
     &Config::count_limit,
     {},
     "registrations",
     config::Level::user,
     "Registrations with one device at a time, in use or not; 0 leaves it to the device."},
    {"max_chunk",
     &Config::max_chunk,
     {.min = 4_KiB, .max = 1_GiB, .power_of_two = true},
     "bytes",
     config::Level::tuner,
     "Bytes of a buffer that one transfer holds registered at a time; larger ones move as a pipeline of pieces of half "
     "of "
     "it."},
    {"overlap",
     &Config::overlap,
     {.choices = "containing|page_refcount"},
     "",
     config::Level::tuner,
     "When a registration that overlaps others counts as in use: while it has users of its own (containing), or while "
     "any of its pages is in use (page_refcount)."},
};
inline constexpr config::Group<Config> kGroup{"rcache_grdma", "Registration cache for local memory", kVars};

}  // namespace opal::rcache
