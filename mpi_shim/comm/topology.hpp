// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/topology.hpp — ranks as points of a grid, row by row.  Pure functions over a value.
#pragma once
#include <span>
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

/// MPI_Dims_create: fills the entries of `dims` that are 0 so that the product of all is `nodes`, as close to each
/// other as possible and in descending order.  False: there is no such choice.
bool balance_dimensions(int nodes, std::span<int> dims);

}  // namespace mpi_shim::comm
