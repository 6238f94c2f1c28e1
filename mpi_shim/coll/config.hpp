// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/config.hpp — the variables and constants of collectives.  All processes of a job must have the same
// values.
#pragma once
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "opal/core/config/config.hpp"

namespace mpi_shim::coll {

// Where one algorithm takes over from another.  All processes of a job have the same.
/// Blocks smaller than this are gathered everywhere in log2(ranks) rounds with copies, others around a ring.
inline constexpr ByteSize kAllgatherBruckBelow = 2_KiB;
/// Messages of at least this size are reduced everywhere around a ring, smaller ones by recursive doubling.
inline constexpr ByteSize kAllreduceRingFrom = 64_KiB;
/// Exchanges that one process has in flight at a time when every process has something for every other.
inline constexpr int kAlltoallWindow = 32;
/// Messages of at least this size are broadcast by scattering and gathering parts, smaller ones as a whole,
inline constexpr ByteSize kBcastScatterFrom = 256_KiB;
/// ... among at least so many ranks.
inline constexpr int kBcastScatterRanks = 4;
/// Blocks smaller than this are gathered and scattered along a tree, others straight to and from the root,
inline constexpr ByteSize kGatherTreeBelow = 2_KiB;
/// ... among at least so many ranks.
inline constexpr int kGatherTreeRanks = 16;
/// Messages up to this size go through shared memory, larger ones straight between ranks.
inline constexpr ByteSize kShareBelow = 1_GiB;
/// The same where a process of the communicator uses a GPU: its memory is copied faster straight between ranks.
inline constexpr ByteSize kShareGpuBelow = 32_KiB;
/// The same for the blocks of an alltoall where ranks share cores: each pair of ranks waits for each other.
inline constexpr ByteSize kShareAlltoallBelow = 256_KiB;
/// Pieces of at least this size are reduced in parts, one by each rank; of smaller ones each rank makes all it needs.
inline constexpr ByteSize kShareSplitFrom = 4_KiB;

struct Config {
  bool share = true;
  std::uint32_t share_after = 8;
  std::uint32_t share_ranks = 64;
  ByteSize share_slot = 32_KiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"share", &Config::share, config::Level::tuner,
     "Whether the ranks of a host execute their part of blocking collectives in shared memory, whatever the "
     "transports."},
    {"share_after",
     &Config::share_after,
     config::Level::tuner,
     "Blocking collectives on a communicator before its ranks share memory for later ones.",
     {.min = 0, .max = 1U << 30},
     "collectives"},
    {"share_ranks",
     &Config::share_ranks,
     config::Level::tuner,
     "Most ranks that share one segment; more ranks of a host form several groups, each with a leader.",
     {.min = 1, .max = 64},
     "ranks"},
    {"share_slot",
     &Config::share_slot,
     config::Level::tuner,
     "Size of the pieces in which data passes through shared memory, times four if ranks share cores; each rank has "
     "four of them per communicator.",
     {.min = 1024, .max = 1ULL << 24}},
};
inline constexpr config::Group<Config> kGroup{"mpi_coll", "MPI collective operations", kVars};

}  // namespace mpi_shim::coll
