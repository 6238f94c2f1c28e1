// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/alltoall.hpp — writes down what this process does when every rank has something for every
// other.
#pragma once
#include <span>

#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/comm/topology.hpp"

namespace mpi_shim::coll {

/// A window of pairwise exchanges at a time: in step k to rank + k and from rank - k, so that no rank is every rank's
/// target at once.
void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in);

/// MPI_IN_PLACE: blocks are exchanged where they are, by way of memory of their size.
void build_alltoall_in_place(Schedule& schedule, const Blocks& blocks);

/// The same exchange with the blocks of other ranks only; by rank, null where there is no message.
void build_exchange(Schedule& schedule, std::span<const Buffer* const> out, std::span<const Buffer* const> in);

/// One exchange, straight between the neighbours of a topology; blocks are in their order.
void build_neighbour_alltoall(Schedule& schedule, const comm::Neighbours& neighbours, const Blocks& out,
                              const Blocks& in);

}  // namespace mpi_shim::coll
