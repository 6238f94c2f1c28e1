// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/topology.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>

#include "mpi_shim/include/mpi.h"

namespace mpi_shim::comm {

int Cartesian::points() const noexcept {
  std::int64_t product = 1;
  for (const int extent : dims) {
    product *= extent;
    if (product > std::numeric_limits<int>::max()) return -1;
  }
  return static_cast<int>(product);
}

void Cartesian::coordinates_of(int rank, std::span<int> coordinates) const noexcept {
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (i < coordinates.size()) coordinates[i] = rank % dims[i];
    rank /= dims[i];
  }
}

int Cartesian::rank_of(std::span<const int> coordinates) const noexcept {
  int rank = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    int coordinate = coordinates[i];
    if (coordinate < 0 || coordinate >= dims[i]) {
      if (!periodic[i]) return MPI_PROC_NULL;
      coordinate %= dims[i];
      if (coordinate < 0) coordinate += dims[i];
    }
    rank = rank * dims[i] + coordinate;
  }
  return rank;
}

Cartesian::Shift Cartesian::shift(int rank, int direction, int displacement) const {
  std::vector<int> here(dims.size());
  coordinates_of(rank, here);
  const auto neighbour = [&](std::int64_t distance) {
    const auto axis = static_cast<std::size_t>(direction);
    std::int64_t coordinate = here[axis] + distance;
    if (periodic[axis]) coordinate = (coordinate % dims[axis] + dims[axis]) % dims[axis];
    if (coordinate < 0 || coordinate >= dims[axis]) return MPI_PROC_NULL;
    std::vector<int> there = here;
    there[axis] = static_cast<int>(coordinate);
    return rank_of(there);
  };
  return {neighbour(-std::int64_t{displacement}), neighbour(displacement)};
}

std::span<const int> Graph::neighbours(int rank) const noexcept {
  const auto at = static_cast<std::size_t>(rank);
  const auto first = static_cast<std::size_t>(at == 0 ? 0 : index[at - 1]);
  return std::span{edges}.subspan(first, static_cast<std::size_t>(index[at]) - first);
}

Neighbours neighbours_of(const Topology& topology, int rank) {
  Neighbours found;
  if (const auto* graph = std::get_if<DistGraph>(&topology)) {
    found.sources = graph->sources;
    found.destinations = graph->destinations;
  } else if (const auto* whole = std::get_if<Graph>(&topology)) {
    const std::span<const int> both = whole->neighbours(rank);
    found.sources.assign(both.begin(), both.end());
    found.destinations = found.sources;
  } else if (const auto* grid = std::get_if<Cartesian>(&topology)) {
    for (int direction = 0; direction < grid->dimensions(); ++direction) {
      const Cartesian::Shift shift = grid->shift(rank, direction, 1);
      found.sources.push_back(shift.source);
      found.sources.push_back(shift.destination);
    }
    found.destinations = found.sources;
  }
  found.receive_order.resize(found.sources.size());
  std::iota(found.receive_order.begin(), found.receive_order.end(), std::size_t{0});
  if (std::holds_alternative<Cartesian>(topology)) {
    for (std::size_t i = 0; i + 1 < found.receive_order.size(); i += 2) {
      std::swap(found.receive_order[i], found.receive_order[i + 1]);
    }
  }
  return found;
}

namespace {

/// In ascending order.
std::vector<int> divisors_of(int number) {
  std::vector<int> small;
  std::vector<int> large;
  for (std::int64_t factor = 1; factor * factor <= number; ++factor) {
    if (number % factor != 0) continue;
    small.push_back(static_cast<int>(factor));
    if (factor * factor != number) large.push_back(static_cast<int>(number / factor));
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

/// Splits `nodes` into `free` more factors of at most `largest`, in descending order, after those in `chosen`.  `best`
/// becomes the split with the smallest difference of largest and smallest factor.
void search(int nodes, std::size_t free, int largest, const std::vector<int>& divisors, std::vector<int>& chosen,
            std::vector<int>& best) {
  if (free == 1) {
    if (nodes > largest) return;
    chosen.push_back(nodes);
    // Among splits with equal difference the one with the largest smallest factor is better.
    const auto rank = [](const std::vector<int>& factors) {
      return std::tuple{factors.front() - factors.back(), -factors.back(), factors};
    };
    const bool better = best.empty() || rank(chosen) < rank(best);
    if (better) best = chosen;
    chosen.pop_back();
    return;
  }
  for (const int factor : divisors) {
    if (factor > std::min(nodes, largest)) break;
    if (nodes % factor != 0) continue;
    // The remaining factors are at most `factor`, so skip it if `free` such factors cannot reach `nodes`.
    double most = factor;
    for (std::size_t i = 1; i < free && most < nodes; ++i) most *= factor;
    if (most < nodes) continue;
    chosen.push_back(factor);
    search(nodes / factor, free - 1, factor, divisors, chosen, best);
    chosen.pop_back();
  }
}

}  // namespace

bool balance_dimensions(int nodes, std::span<int> dims) {
  int left = nodes;
  std::size_t free = 0;
  for (const int extent : dims) {
    if (extent == 0) {
      ++free;
    } else if (left % extent != 0) {
      return false;
    } else {
      left /= extent;
    }
  }
  if (free == 0) return left == 1;
  std::vector<int> chosen;
  std::vector<int> best;
  search(left, free, left, divisors_of(left), chosen, best);
  if (best.empty()) return false;
  std::size_t next = 0;
  for (int& extent : dims) {
    if (extent == 0) extent = best[next++];
  }
  return true;
}

}  // namespace mpi_shim::comm
