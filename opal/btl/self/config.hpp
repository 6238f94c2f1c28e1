// SPDX-License-Identifier: Apache-2.0
// opal/btl/self/config.hpp — the variables of the self transport; the only place where these defaults are written.
#pragma once
#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::btl::self {

struct Config {
  ByteSize ring_size = 1_MiB;
  ByteSize max_send = 64_KiB;
  std::uint32_t fragments = 64;
};

inline constexpr config::Var<Config> kVars[] = {
    {"ring_size",
     &Config::ring_size,
     {.min = 4_KiB, .max = 1_GiB, .power_of_two = true},
     "bytes",
     config::Level::tuner,
     "Bytes of messages to oneself that may wait for progress."},
    {"max_send",
     &Config::max_send,
     {.min = 1_KiB, .max = 1_MiB},
     "bytes",
     config::Level::tuner,
     "Largest message to oneself; at most a quarter of btl_self_ring_size is used."},
    {"fragments",
     &Config::fragments,
     {.min = 1, .max = 65536},
     "fragments",
     config::Level::developer,
     "Fragments that may be allocated and not yet sent at a time."},
};
inline constexpr config::Group<Config> kGroup{"btl_self", "Transport to oneself", kVars};

}  // namespace opal::btl::self
