// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/neighbour.hpp — writes down what this process does in a neighbourhood collective: one
// exchange, straight between neighbours.  Blocks are in the order of the topology's neighbours.
#pragma once
#include "mpi_shim/coll/blocks.hpp"
#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/comm/topology.hpp"

namespace mpi_shim::coll {

void build_neighbour_alltoall(Schedule& schedule, const comm::Neighbours& neighbours, const Blocks& out,
                              const Blocks& in);

}  // namespace mpi_shim::coll
