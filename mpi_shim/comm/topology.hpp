// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/topology.hpp — which ranks of a communicator are neighbours: points of a grid, row by row, or nodes of
// a graph.  Pure functions over values.
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
  /// Points of the grid; -1 when that does not fit an int.
  [[nodiscard]] int points() const noexcept;

  void coordinates_of(int rank, std::span<int> coordinates) const noexcept;
  /// MPI_PROC_NULL when a coordinate of a dimension that is not periodic is outside.
  [[nodiscard]] int rank_of(std::span<const int> coordinates) const noexcept;

  struct Shift {
    int source;
    int destination;
  };
  [[nodiscard]] Shift shift(int rank, int direction, int displacement) const;
};

/// A graph that every process knows as a whole (MPI_Graph_create).
struct Graph {
  std::vector<int> index;  ///< by rank: neighbours of all ranks up to and including it
  std::vector<int> edges;  ///< neighbours of rank 0, then of rank 1, ...

  [[nodiscard]] std::span<const int> neighbours(int rank) const noexcept;
};

/// The part of a graph that one process knows (MPI_Dist_graph_create): the processes that send to it, and those that it
/// sends to.
struct DistGraph {
  std::vector<int> sources;
  std::vector<int> source_weights;  ///< empty unless weighted, as below
  std::vector<int> destinations;
  std::vector<int> destination_weights;
  bool weighted = false;
};

using Topology = std::variant<Cartesian, Graph, DistGraph>;

/// The partners of a process in a neighbourhood collective, in the order of its blocks; MPI_PROC_NULL beyond
/// the border of a grid.
struct Neighbours {
  std::vector<int> sources;
  std::vector<int> destinations;
  /// The order in which receives meet what the sources send, where the same process is several neighbours: what was
  /// sent in the negative direction of a dimension is received from the positive one.
  std::vector<std::size_t> receive_order;
};
Neighbours neighbours_of(const Topology& topology, int rank);

/// MPI_Dims_create: fills the entries of `dims` that are 0 so that the product of all is `nodes`, as close to each
/// other as possible and in descending order.  False: there is no such choice.
bool balance_dimensions(int nodes, std::span<int> dims);

}  // namespace mpi_shim::comm
