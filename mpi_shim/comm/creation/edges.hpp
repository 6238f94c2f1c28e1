// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/edges.hpp — the exchange of MPI_Dist_graph_create: any process may specify any edge, and each
// edge is sent to its source and its destination.
#pragma once
#include <span>

#include "mpi_shim/comm/communicator.hpp"

namespace mpi_shim::comm {

struct Edge {
  int source;
  int destination;
  int weight;
};

/// Fills `graph` with the neighbours of this process from the `edges` of all processes.  Collective over `comm`.
/// Order: by the rank that specified the edge, then as in its `edges`; so both ends of parallel edges agree.
/// `weighted`: also fills the weights.  Returns an error class.
int gather_edges(Communicator& comm, std::span<const Edge> edges, bool weighted, DistGraph& graph);

}  // namespace mpi_shim::comm
