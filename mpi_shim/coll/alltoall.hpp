// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/alltoall.hpp — writes down what this process does when every rank has something for every other.
#pragma once
#include "mpi_shim/coll/blocks.hpp"
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// A window of pairwise exchanges at a time: in step k to rank + k and from rank - k, so that no rank is everybody's
/// target at once.
void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in);

/// MPI_IN_PLACE: blocks are exchanged where they are, by way of memory of their size.
void build_alltoall_in_place(Schedule& schedule, const Blocks& blocks);

}  // namespace mpi_shim::coll
