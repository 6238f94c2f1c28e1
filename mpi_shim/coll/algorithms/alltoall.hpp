// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/alltoall.hpp — the schedules of alltoall and of neighbourhood exchanges.
#pragma once
#include <span>

#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/comm/topology.hpp"

namespace mpi_shim::coll {

/// Pairwise exchanges, kAlltoallWindow per round.  Step k sends to rank + k and receives from rank - k, so each rank is
/// the target of one other rank per step.  &out == &in is MPI_IN_PLACE: it first copies all outgoing blocks to scratch
/// memory.  Otherwise the blocks of `out` and `in` do not overlap.
void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in);

/// By rank: the address of its block, valid while `blocks` lives and does not change.
std::vector<const Buffer*> addresses_of(const Blocks& blocks);

/// As build_alltoall(), without this rank's own block.  `out` and `in` are indexed by rank; null: no message.
void build_exchange(Schedule& schedule, std::span<const Buffer* const> out, std::span<const Buffer* const> in);

/// One round: a message from each source and to each destination of `neighbours`.  in[i] is from sources[i], out[i] is
/// for destinations[i].
void build_neighbour_alltoall(Schedule& schedule, const comm::Neighbours& neighbours, const Blocks& out,
                              const Blocks& in);

}  // namespace mpi_shim::coll
