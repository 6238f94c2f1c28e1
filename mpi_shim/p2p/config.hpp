// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/config.hpp — the variables of point-to-point messages; the only place where these defaults are written.
#pragma once
#include "mpi_shim/base/names.hpp"
#include "opal/core/config/config.hpp"

namespace mpi_shim::p2p {

/// Bytes of one get of a rendezvous into a non-contiguous buffer; each chunk is unpacked before the next get.
inline constexpr ByteSize kFetchChunk = 256_KiB;

struct Config {
  ByteSize eager_limit{0};
  ByteSize unexpected_limit = 4_MiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"eager_limit",
     &Config::eager_limit,
     config::Level::tuner,
     "Largest eager message; larger ones use rendezvous. 0: the limit of each transport. At most one active message.",
     {.min = 0, .max = 1ULL << 30}},
    {"unexpected_limit",
     &Config::unexpected_limit,
     config::Level::tuner,
     "Most bytes of unexpected messages from one process to another; beyond it the sender uses rendezvous.",
     {.min = 4096, .max = 1ULL << 40}},
};
inline constexpr config::Group<Config> kGroup{"mpi_p2p", "MPI point-to-point messages", kVars};

}  // namespace mpi_shim::p2p
