// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/creation/creation.hpp"

#include <vector>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/algorithms/exchange.hpp"

namespace mpi_shim::comm {
namespace {

coll::Blocks blocks_of(std::vector<std::vector<Edge>>& lists) {
  coll::Blocks blocks;
  for (std::vector<Edge>& list : lists)
    blocks.push_back(p2p::Buffer::of_bytes(list.data(), list.size() * sizeof(Edge)));
  return blocks;
}

int exchange(Communicator& comm, const coll::Blocks& out, const coll::Blocks& in) {
  return coll::run(comm, [&](coll::Schedule& schedule) { coll::build_alltoall(schedule, out, in); });
}

}  // namespace

int gather_edges(Communicator& comm, std::span<const Edge> edges, bool weighted, DistGraph& graph) {
  const auto size = static_cast<std::size_t>(comm.size());
  std::vector<std::vector<Edge>> out(size);
  for (const Edge& edge : edges) {
    out[static_cast<std::size_t>(edge.source)].push_back(edge);
    if (edge.destination != edge.source) out[static_cast<std::size_t>(edge.destination)].push_back(edge);
  }
  std::vector<std::uint64_t> out_counts;
  out_counts.reserve(size);
  for (const std::vector<Edge>& list : out) out_counts.push_back(list.size());
  std::vector<std::uint64_t> in_counts(size);
  if (const int error = exchange(comm, coll::blocks_of(out_counts), coll::blocks_of(in_counts)); error != MPI_SUCCESS)
    return error;
  std::vector<std::vector<Edge>> in(size);
  for (std::size_t rank = 0; rank < size; ++rank) in[rank].resize(in_counts[rank]);
  if (const int error = exchange(comm, blocks_of(out), blocks_of(in)); error != MPI_SUCCESS) return error;

  graph.weighted = weighted;
  for (const std::vector<Edge>& list : in) {
    for (const Edge& edge : list) {
      if (edge.destination == comm.rank()) {
        graph.sources.push_back(edge.source);
        if (weighted) graph.source_weights.push_back(edge.weight);
      }
      if (edge.source == comm.rank()) {
        graph.destinations.push_back(edge.destination);
        if (weighted) graph.destination_weights.push_back(edge.weight);
      }
    }
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::comm
