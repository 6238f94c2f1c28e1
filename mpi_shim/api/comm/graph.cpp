// SPDX-License-Identifier: Apache-2.0
// Graph topologies: each process gives the whole graph (MPI_Graph_*) or a part of it (MPI_Dist_graph_*).
#include <algorithm>
#include <vector>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/algorithms/exchange.hpp"
#include "mpi_shim/comm/creation/creation.hpp"

namespace mpi_shim::api {
namespace {

/// The graph that the arguments describe; an error if the communicator has too few ranks.
comm::Graph described(Call& call, const comm::Communicator* communicator, int nnodes, const int* index,
                      const int* edges) {
  comm::Graph graph;
  if (nnodes < 0 || nnodes > communicator->size()) {
    call.fail(MPI_ERR_ARG, "argument nnodes is not between 0 and the number of processes");
  }
  if (nnodes > 0) call.pointer(index, "indx");
  int last = 0;
  for (int node = 0; node < nnodes; ++node) {
    if (index[node] < last) call.fail(MPI_ERR_ARG, "argument indx descends at entry " + std::to_string(node));
    last = index[node];
    graph.index.push_back(last);
  }
  if (last > 0) call.pointer(edges, "edges");
  for (int i = 0; i < last; ++i) {
    if (edges[i] < 0 || edges[i] >= nnodes) call.fail(MPI_ERR_ARG, "edge " + std::to_string(i) + " leads to no node");
    graph.edges.push_back(edges[i]);
  }
  return graph;
}

void check_ranks(Call& call, const comm::Communicator& comm, int count, const int* ranks, const char* argument) {
  if (count > 0) call.pointer(ranks, argument);
  for (int i = 0; i < count; ++i) {
    if (ranks[i] >= 0 && ranks[i] < comm.size()) continue;
    call.fail(MPI_ERR_RANK, "entry " + std::to_string(i) + " of argument " + argument + " is " +
                                std::to_string(ranks[i]) + ", which is not in the communicator");
  }
}

void check_weights(Call& call, int count, const int* weights, const char* argument) {
  if (count > 0 && weights == MPI_WEIGHTS_EMPTY) {
    call.fail(MPI_ERR_ARG, std::string{"argument "} + argument + " is MPI_WEIGHTS_EMPTY, but there are edges");
  } else if (count > 0 && weights != MPI_UNWEIGHTED) {
    call.pointer(weights, argument);
  }
  for (int i = 0; i < count && weights != MPI_UNWEIGHTED; ++i) {
    if (weights[i] < 0) call.fail(MPI_ERR_ARG, std::string{"argument "} + argument + " has a negative weight");
  }
}

std::vector<int> list(int count, const int* values) {
  return count == 0 ? std::vector<int>{} : std::vector<int>{values, values + count};
}

/// Copies at most `room` of `values` to `target`.
void store(const std::vector<int>& values, int* target, int room) {
  std::copy_n(values.begin(), std::min(values.size(), static_cast<std::size_t>(std::max(room, 0))), target);
}

// --- The exchange of MPI_Dist_graph_create: any process may specify any edge, and each edge is sent to its source and
//     its destination.

struct Edge {
  int source;
  int destination;
  int weight;
};
using EdgeLists = std::vector<std::vector<Edge>>;

coll::Blocks blocks_of(EdgeLists& lists) {
  coll::Blocks blocks;
  for (std::vector<Edge>& list : lists)
    blocks.push_back(p2p::Buffer::of_bytes(list.data(), list.size() * sizeof(Edge)));
  return blocks;
}

/// `out`: the edges for each rank.  Fills `graph` with the neighbours of this process from the edges of all processes.
/// Collective over `comm`.  Order: by the rank that specified the edge, then as in its list; so both ends of parallel
/// edges agree.  Returns an error class.
int gather_edges(comm::Communicator& comm, EdgeLists& out, comm::DistGraph& graph) {
  const auto exchange = [&](const coll::Blocks& from, const coll::Blocks& to) {
    return coll::run(comm, [&](coll::Schedule& schedule) { build_alltoall(schedule, from, to); });
  };
  std::vector<std::uint64_t> out_counts;
  for (const std::vector<Edge>& list : out) out_counts.push_back(list.size());
  std::vector<std::uint64_t> in_counts(out.size());
  if (const int error = exchange(coll::blocks_of(out_counts), coll::blocks_of(in_counts)); error != MPI_SUCCESS)
    return error;
  EdgeLists in(out.size());
  for (std::size_t rank = 0; rank < in.size(); ++rank) in[rank].resize(in_counts[rank]);
  if (const int error = exchange(blocks_of(out), blocks_of(in)); error != MPI_SUCCESS) return error;
  for (const std::vector<Edge>& list : in) {
    for (const Edge& edge : list) {
      if (edge.destination == comm.rank()) {
        graph.sources.push_back(edge.source);
        if (graph.weighted) graph.source_weights.push_back(edge.weight);
      }
      if (edge.source == comm.rank()) {
        graph.destinations.push_back(edge.destination);
        if (graph.weighted) graph.destination_weights.push_back(edge.weight);
      }
    }
  }
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_CALL(Topo_test, (Call & call, MPI_Comm comm, int* status)) {
  const comm::Communicator* const communicator = call.comm(comm);
  *status = MPI_UNDEFINED;
  if (communicator->topology_as<comm::Cartesian>() != nullptr) *status = MPI_CART;
  if (communicator->topology_as<comm::Graph>() != nullptr) *status = MPI_GRAPH;
  if (communicator->topology_as<comm::DistGraph>() != nullptr) *status = MPI_DIST_GRAPH;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Graph_create, (Call & call, MPI_Comm comm_old, int nnodes, const int indx[], const int edges[],
                             int /*reorder*/, MPI_Comm* comm_graph)) {
  comm::Communicator* const parent = call.intracomm(comm_old, "comm_old");
  comm::Graph graph = described(call, parent, nnodes, indx, edges);
  const int color = parent->rank() < nnodes ? 0 : MPI_UNDEFINED;
  return hand_out(call, split(call.process().communicators(), *parent, color, 0), comm_graph,
                  std::make_shared<const comm::Topology>(std::move(graph)));
}

OPAL_MPI_CALL(Graph_map, (Call & call, MPI_Comm comm, int nnodes, const int indx[], const int edges[], int* newrank)) {
  const comm::Communicator* const communicator = call.intracomm(comm);
  described(call, communicator, nnodes, indx, edges);
  return call.answer(newrank, communicator->rank() < nnodes ? communicator->rank() : MPI_UNDEFINED);
}

OPAL_MPI_CALL(Graphdims_get, (Call & call, MPI_Comm comm, int* nnodes, int* nedges)) {
  const auto* const graph = call.topology<comm::Graph>(call.comm(comm), "graph");
  *nnodes = static_cast<int>(graph->index.size());
  *nedges = static_cast<int>(graph->edges.size());
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Graph_get, (Call & call, MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[])) {
  const auto* const graph = call.topology<comm::Graph>(call.comm(comm), "graph");
  if (maxindex > 0) call.pointer(indx, "indx");
  if (maxedges > 0) call.pointer(edges, "edges");
  store(graph->index, indx, maxindex);
  store(graph->edges, edges, maxedges);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Graph_neighbors_count, (Call & call, MPI_Comm comm, int rank, int* nneighbors)) {
  const comm::Communicator* const communicator = call.comm(comm);
  const auto* const graph = call.topology<comm::Graph>(communicator, "graph");
  call.rank("rank", rank, communicator->size(), "argument comm");
  return call.answer(nneighbors, static_cast<int>(graph->neighbours(rank).size()));
}

OPAL_MPI_CALL(Graph_neighbors, (Call & call, MPI_Comm comm, int rank, int maxneighbors, int neighbors[])) {
  const comm::Communicator* const communicator = call.comm(comm);
  const auto* const graph = call.topology<comm::Graph>(communicator, "graph");
  call.rank("rank", rank, communicator->size(), "argument comm");
  if (maxneighbors > 0) call.pointer(neighbors, "neighbors");
  const std::span<const int> found = graph->neighbours(rank);
  store({found.begin(), found.end()}, neighbors, maxneighbors);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Dist_graph_create_adjacent,
              (Call & call, MPI_Comm comm_old, int indegree, const int sources[], const int sourceweights[],
               int outdegree, const int destinations[], const int destweights[], MPI_Info info, int /*reorder*/,
               MPI_Comm* comm_dist_graph)) {
  comm::Communicator* const parent = call.intracomm(comm_old, "comm_old");
  call.info(info);
  if (indegree < 0 || outdegree < 0) call.fail(MPI_ERR_ARG, "argument indegree or outdegree is negative");
  check_ranks(call, *parent, indegree, sources, "sources");
  check_ranks(call, *parent, outdegree, destinations, "destinations");
  check_weights(call, indegree, sourceweights, "sourceweights");
  check_weights(call, outdegree, destweights, "destweights");
  comm::DistGraph graph;
  graph.sources = list(indegree, sources);
  graph.destinations = list(outdegree, destinations);
  graph.weighted = sourceweights != MPI_UNWEIGHTED && destweights != MPI_UNWEIGHTED;
  if (graph.weighted) {
    graph.source_weights = list(indegree, sourceweights);
    graph.destination_weights = list(outdegree, destweights);
  }
  return hand_out(call, split(call.process().communicators(), *parent, 0, 0), comm_dist_graph,
                  std::make_shared<const comm::Topology>(std::move(graph)));
}

OPAL_MPI_CALL(Dist_graph_create, (Call & call, MPI_Comm comm_old, int n, const int sources[], const int degrees[],
                                  const int destinations[], const int weights[], MPI_Info info, int /*reorder*/,
                                  MPI_Comm* comm_dist_graph)) {
  comm::Communicator* const parent = call.intracomm(comm_old, "comm_old");
  call.info(info);
  if (n < 0) call.fail(MPI_ERR_ARG, "argument n is negative");
  check_ranks(call, *parent, n, sources, "sources");
  if (n > 0) call.pointer(degrees, "degrees");
  int edge_count = 0;
  for (int i = 0; i < n; ++i) {
    if (degrees[i] < 0) call.fail(MPI_ERR_ARG, "argument degrees has a negative entry");
    edge_count += degrees[i];
  }
  check_ranks(call, *parent, edge_count, destinations, "destinations");
  check_weights(call, edge_count, weights, "weights");
  comm::DistGraph graph;
  graph.weighted = weights != MPI_UNWEIGHTED;
  EdgeLists edges(static_cast<std::size_t>(parent->size()));
  for (int i = 0, next = 0; i < n; ++i) {
    for (int degree = 0; degree < degrees[i]; ++degree, ++next) {
      const Edge edge{sources[i], destinations[next], graph.weighted ? weights[next] : 0};
      edges[static_cast<std::size_t>(edge.source)].push_back(edge);
      if (edge.destination != edge.source) edges[static_cast<std::size_t>(edge.destination)].push_back(edge);
    }
  }
  call.finish(gather_edges(*parent, edges, graph));
  return hand_out(call, split(call.process().communicators(), *parent, 0, 0), comm_dist_graph,
                  std::make_shared<const comm::Topology>(std::move(graph)));
}

OPAL_MPI_CALL(Dist_graph_neighbors_count, (Call & call, MPI_Comm comm, int* indegree, int* outdegree, int* weighted)) {
  const auto* const graph = call.topology<comm::DistGraph>(call.comm(comm), "distributed graph");
  *indegree = static_cast<int>(graph->sources.size());
  *outdegree = static_cast<int>(graph->destinations.size());
  *weighted = graph->weighted;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Dist_graph_neighbors, (Call & call, MPI_Comm comm, int maxindegree, int sources[], int sourceweights[],
                                     int maxoutdegree, int destinations[], int destweights[])) {
  const auto* const graph = call.topology<comm::DistGraph>(call.comm(comm), "distributed graph");
  if (maxindegree < 0 || maxoutdegree < 0) call.fail(MPI_ERR_ARG, "argument maxindegree or maxoutdegree is negative");
  if (maxindegree > 0) call.pointer(sources, "sources");
  if (maxoutdegree > 0) call.pointer(destinations, "destinations");
  store(graph->sources, sources, maxindegree);
  store(graph->destinations, destinations, maxoutdegree);
  if (!graph->weighted) return MPI_SUCCESS;
  if (sourceweights != MPI_UNWEIGHTED) store(graph->source_weights, sourceweights, maxindegree);
  if (destweights != MPI_UNWEIGHTED) store(graph->destination_weights, destweights, maxoutdegree);
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
