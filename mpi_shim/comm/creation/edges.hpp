// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/edges.hpp — a graph whose edges any process may name (MPI_Dist_graph_create): each edge goes
// to the two processes that it joins.
#pragma once
#include <span>

#include "mpi_shim/comm/communicator.hpp"

namespace mpi_shim::comm {

struct Edge {
  int source;
  int destination;
  int weight;
};

/// Collective over `comm`: the neighbours of this process out of all `edges`, in the order of the processes
/// that named them, the same at both ends.  An error class.
int gather_edges(Communicator& comm, std::span<const Edge> edges, bool weighted, DistGraph& graph);

}  // namespace mpi_shim::comm
