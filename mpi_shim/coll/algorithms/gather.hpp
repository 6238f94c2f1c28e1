// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/gather.hpp — the schedules of gather, scatter and allgather.
// blocks[r] is the block of rank r in the result or source of the whole operation; in gather and scatter only the root
// has blocks.  `own` is this rank's separate buffer.  nullopt is MPI_IN_PLACE (gather and scatter: at the root only):
// this rank's data are in blocks[rank].
#pragma once
#include <optional>

#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// Requires: all blocks have the same size.  Small blocks of many ranks use a binomial tree (kGatherTreeBelow,
/// kGatherTreeRanks), others build_gatherv() or build_scatterv().
void build_gather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);
void build_scatter(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);

/// Every rank sends its block directly to the root, which posts all receives in one round.
void build_gatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);
/// The root sends each rank its block.
void build_scatterv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);

/// Requires: all blocks have the same size.  Small blocks use the algorithm of Bruck et al. 1997 (ceil(log2 n) rounds
/// with messages), others build_allgatherv().
void build_allgather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks);

/// A ring: n - 1 rounds with messages.  Each round passes one block to the next rank.
void build_allgatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks);

}  // namespace mpi_shim::coll
