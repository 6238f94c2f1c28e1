// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/topology.hpp — MPI's virtual topologies: which ranks of a communicator are neighbours in a grid
// (numbered in row-major order) or in a graph.  Values and pure functions; arguments are checked by the caller.
#pragma once
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

namespace mpi_shim::comm {

struct Cartesian {
  std::vector<int> dims;
  std::vector<bool> periodic;

  [[nodiscard]] int dimensions() const noexcept { return static_cast<int>(dims.size()); }
  /// The number of points of the grid; -1 if it does not fit an int.
  [[nodiscard]] int points() const noexcept;

  void coordinates_of(int rank, std::span<int> coordinates) const noexcept;
  /// MPI_PROC_NULL if a coordinate is outside of a dimension that is not periodic.
  [[nodiscard]] int rank_of(std::span<const int> coordinates) const noexcept;

  struct Shift {
    int source;
    int destination;
  };
  [[nodiscard]] Shift shift(int rank, int direction, int displacement) const;
};

/// A graph of which every process has all edges (MPI_Graph_create).
struct Graph {
  std::vector<int> index;  ///< by rank: the number of neighbours of all ranks up to and including it
  std::vector<int> edges;  ///< neighbours of rank 0, then of rank 1, ...

  [[nodiscard]] std::span<const int> neighbours(int rank) const noexcept;
};

/// The part of a graph that one process has (MPI_Dist_graph_create): the ranks that send to it (sources), and the ranks
/// that it sends to (destinations).
struct DistGraph {
  std::vector<int> sources;
  std::vector<int> source_weights;  ///< empty unless weighted; likewise destination_weights
  std::vector<int> destinations;
  std::vector<int> destination_weights;
  bool weighted = false;
};

using Topology = std::variant<Cartesian, Graph, DistGraph>;

/// The partners of a process in a neighbourhood collective, in the order of its blocks.  MPI_PROC_NULL: no neighbour,
/// beyond the border of a grid.
struct Neighbours {
  std::vector<int> sources;
  std::vector<int> destinations;
  /// Indices into `sources` in the order in which the receives are posted.  It matters if one process is several
  /// neighbours in a grid: the neighbour's message in negative direction matches the receive from positive direction.
  std::vector<std::size_t> receive_order;
};
Neighbours neighbours_of(const Topology& topology, int rank);

/// MPI_Dims_create: fills the entries of `dims` that are 0 so that the product of all entries is `nodes`.  The filled
/// entries are as close to each other as possible and in descending order.  False: no such values exist.
bool balance_dimensions(int nodes, std::span<int> dims);

}  // namespace mpi_shim::comm
