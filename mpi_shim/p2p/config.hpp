// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/config.hpp — the variables of point-to-point messages; the only place where these defaults are written.
#pragma once
#include "mpi_shim/core/names.hpp"
#include "opal/core/config.hpp"

namespace mpi_shim::p2p {

struct Config {
  ByteSize eager_limit{0};
  ByteSize fetch_chunk = 256_KiB;
  ByteSize unexpected_limit = 4_MiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"eager_limit",
     &Config::eager_limit,
     {.min = 0, .max = 1ULL << 30},
     "bytes",
     config::Level::tuner,
     "Largest message that is sent without asking the receiver first; 0 takes each transport's own limit. Never more "
     "than one active message can carry."},
    {"fetch_chunk",
     &Config::fetch_chunk,
     {.min = 4096, .max = 1ULL << 30},
     "bytes",
     config::Level::tuner,
     "Bytes that are fetched at a time when a large message has to be unpacked into a non-contiguous buffer."},
    {"unexpected_limit",
     &Config::unexpected_limit,
     {.min = 4096, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "What one process may have sent to another without it being received yet; beyond that it only offers its data. "
     "Bounds the memory that a flood of messages takes at their target."},
};
inline constexpr config::Group<Config> kGroup{"mpi_p2p", "MPI point-to-point messages", kVars};

}  // namespace mpi_shim::p2p
