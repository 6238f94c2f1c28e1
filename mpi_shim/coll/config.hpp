// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/config.hpp — the variables of collectives: where one algorithm takes over from another; the only place
// where these defaults are written.  All processes of a job must have the same values.
#pragma once
#include <cstdint>

#include "mpi_shim/core/names.hpp"
#include "opal/core/config.hpp"

namespace mpi_shim::coll {

struct Config {
  ByteSize allgather_bruck_below{2048};
  ByteSize allreduce_ring_from = 64_KiB;
  std::uint32_t alltoall_window = 32;
  ByteSize bcast_scatter_from = 256_KiB;
  std::uint32_t bcast_scatter_ranks = 4;
  ByteSize gather_tree_below{2048};
  std::uint32_t gather_tree_ranks = 16;
  bool share = true;
  std::uint32_t share_after = 8;
  ByteSize share_alltoall_below = 256_KiB;
  ByteSize share_below = 1_GiB;
  ByteSize share_gpu_below = 32_KiB;
  std::uint32_t share_ranks = 64;
  ByteSize share_slot = 32_KiB;
  ByteSize share_split_from = 4_KiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"allgather_bruck_below",
     &Config::allgather_bruck_below,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "Blocks smaller than this are gathered everywhere in log2(ranks) rounds with copies, others around a ring."},
    {"allreduce_ring_from",
     &Config::allreduce_ring_from,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "Messages of at least this size are reduced everywhere around a ring, smaller ones by recursive doubling."},
    {"alltoall_window",
     &Config::alltoall_window,
     {.min = 1, .max = 1U << 20},
     "messages",
     config::Level::tuner,
     "Exchanges that one process has under way at a time when every process has something for every other."},
    {"bcast_scatter_from",
     &Config::bcast_scatter_from,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "Messages of at least this size are broadcast by scattering and gathering parts, smaller ones as a whole."},
    {"bcast_scatter_ranks",
     &Config::bcast_scatter_ranks,
     {.min = 2, .max = 1U << 30},
     "ranks",
     config::Level::tuner,
     "Fewest ranks among which a broadcast is scattered in parts."},
    {"gather_tree_below",
     &Config::gather_tree_below,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "Blocks smaller than this are gathered and scattered along a tree, others straight to and from the root."},
    {"gather_tree_ranks",
     &Config::gather_tree_ranks,
     {.min = 2, .max = 1U << 30},
     "ranks",
     config::Level::tuner,
     "Fewest ranks among which blocks are gathered and scattered along a tree."},
    {"share",
     &Config::share,
     {},
     "",
     config::Level::tuner,
     "Whether the ranks of a host do their part of blocking collectives in shared memory, whatever transports there "
     "are."},
    {"share_after",
     &Config::share_after,
     {.min = 0, .max = 1U << 30},
     "collectives",
     config::Level::tuner,
     "Blocking collectives on a communicator before its ranks share memory for those that follow."},
    {"share_alltoall_below",
     &Config::share_alltoall_below,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "As mpi_coll_share_below, of the blocks of an alltoall where ranks share cores: each is for one rank only, and "
     "pieces are pairs of ranks that wait for each other."},
    {"share_below",
     &Config::share_below,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "Messages up to this size go through shared memory, larger ones straight between ranks."},
    {"share_gpu_below",
     &Config::share_gpu_below,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "As mpi_coll_share_below, where a process of the communicator uses a GPU: its memory is copied faster straight "
     "between ranks."},
    {"share_ranks",
     &Config::share_ranks,
     {.min = 1, .max = 64},
     "ranks",
     config::Level::tuner,
     "Most ranks that share one segment; more ranks of a host become several groups, each with a rank that speaks for "
     "it."},
    {"share_slot",
     &Config::share_slot,
     {.min = 1024, .max = 1ULL << 24},
     "bytes",
     config::Level::tuner,
     "Size of the pieces in which data pass through shared memory, times four where ranks share cores; each rank has "
     "four of them in every communicator that shares."},
    {"share_split_from",
     &Config::share_split_from,
     {.min = 0, .max = 1ULL << 40},
     "bytes",
     config::Level::tuner,
     "Pieces of at least this size are reduced in parts, one by each rank; of smaller ones each rank makes all it "
     "needs."},
};
inline constexpr config::Group<Config> kGroup{"mpi_coll", "MPI collective operations", kVars};

}  // namespace mpi_shim::coll
