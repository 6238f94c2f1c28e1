// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/config.hpp — the variables and constants of collectives.  All processes of a job must have the same
// values.
#pragma once
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "opal/core/config/config.hpp"

namespace mpi_shim::coll {

/// Allgather: blocks smaller than this use Bruck's algorithm (log2(ranks) rounds, with copies), others a ring.
inline constexpr ByteSize kAllgatherBruckBelow = 2_KiB;
/// Allreduce: messages of at least this size use a ring, smaller ones recursive doubling.
inline constexpr ByteSize kAllreduceRingFrom = 64_KiB;
/// Alltoall: pairwise exchanges of one round, which are in flight at the same time.
inline constexpr int kAlltoallWindow = 32;
/// Broadcast: messages of at least this size use scatter and allgather, smaller ones a binomial tree, ...
inline constexpr ByteSize kBcastScatterFrom = 256_KiB;
/// ... if there are at least this many ranks.
inline constexpr int kBcastScatterRanks = 4;
/// Gather, scatter: blocks smaller than this use a binomial tree, others messages directly to or from the root, ...
inline constexpr ByteSize kGatherTreeBelow = 2_KiB;
/// ... if there are at least this many ranks.
inline constexpr int kGatherTreeRanks = 16;
/// Blocking collectives on a communicator before its ranks share memory for later ones, so that a communicator with few
/// calls costs no memory.
inline constexpr std::uint32_t kShareAfter = 8;
/// A job of at most this many ranks, all on one host, shares memory for MPI_COMM_WORLD from MPI_Init on, and its ranks
/// are connected then: a quarter of a millisecond and some 100 KiB per rank instead of a slow first message and
/// barrier.
inline constexpr int kShareAtInitRanks = 8;
/// Host team: messages up to this size go through the team segment, larger ones directly between ranks.
inline constexpr ByteSize kShareBelow = 1_GiB;
/// As kShareBelow if a process of the communicator uses a GPU: transports copy GPU memory faster between two ranks.
inline constexpr ByteSize kShareGpuBelow = 32_KiB;
/// As kShareBelow for a block that one rank sends to one other, unless ranks share cores: a slot is written by one core
/// and read by another, and transports have faster ways for long blocks.
inline constexpr ByteSize kShareBlockBelow = 64_KiB;
/// The same for an alltoall if ranks share cores: there each exchange waits for all ranks.
inline constexpr ByteSize kShareAlltoallBelow = 256_KiB;
/// Host team: of a piece of at least this size each rank reduces one part; a smaller piece each receiver reduces whole.
inline constexpr ByteSize kShareSplitFrom = 4_KiB;

struct Config {
  bool share = true;
  std::uint32_t share_ranks = 64;
  ByteSize share_slot = 32_KiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"share", &Config::share, config::Level::tuner,
     "Whether the ranks of a host execute their part of blocking collectives in shared memory, whatever the "
     "transports."},
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
