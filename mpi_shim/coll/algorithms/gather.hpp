// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/gather.hpp — the schedules of gather, scatter and allgather.
// blocks[r] belongs to rank r; in gather and scatter only the root has blocks.  `own` is the block of this rank; none:
// MPI_IN_PLACE, in gather and scatter at the root only.
#pragma once
#include <optional>

#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// Blocks of the same size: small ones of many ranks along a binomial tree, otherwise as build_gatherv.
void build_gather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);
void build_scatter(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);

/// Every rank sends its block to the root, which has all receives posted: no copy and no extra hop.
void build_gatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);
/// The root sends each rank its block.
void build_scatterv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root);

/// Blocks of the same size: Bruck et al. 1997 for small ones (ceil(log2 n) rounds with messages), otherwise as
/// build_allgatherv.
void build_allgather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks);

/// Around a ring: n-1 rounds with messages, each block moves once between neighbours.
void build_allgatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks);

}  // namespace mpi_shim::coll
