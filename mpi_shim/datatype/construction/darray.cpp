// SPDX-License-Identifier: Apache-2.0
// MPI_Type_create_darray: builds one type per dimension, the fastest dimension first.  It consists of whole blocks and
// a last partial block; the elements of the blocks have the type of the previous dimension.
#include <algorithm>
#include <vector>

#include "mpi_shim/datatype/construction/arguments.hpp"
#include "mpi_shim/datatype/construction/assembly.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

Error bad(const char* what) { return {Errc::invalid_argument, 0, what}; }

// One dimension: `size` elements, `step` bytes apart, distributed in blocks of `block` elements over `processes`.
// `coordinate`: the position of the process in this dimension of the process grid.
struct Dimension {
  std::int64_t size;
  std::int64_t step;
  std::int64_t block;
  std::int64_t processes;
  std::int64_t coordinate;
};

Result<std::int64_t> block_size(std::int64_t distribution, std::int64_t argument, std::int64_t size,
                                std::int64_t processes) {
  switch (static_cast<Distribution>(distribution)) {
    case Distribution::none:
      if (processes != 1) return bad("several processes in a dimension that is not distributed");
      return size;
    case Distribution::block: {
      if (argument == kDefaultArgument) return (size - 1) / processes + 1;
      std::int64_t covered = 0;
      if (argument < 1 || (!__builtin_mul_overflow(argument, processes, &covered) && covered < size)) {
        return bad("the blocks do not cover a dimension");
      }
      return argument;
    }
    case Distribution::cyclic:
      if (argument == kDefaultArgument) return 1;
      if (argument < 1) return bad("a block size below 1");
      return argument;
  }
  return bad("an unknown distribution");
}

// The type of the elements of this dimension that the process owns; each element has the type `inner`.
Result<DatatypeRef> distributed(const Dimension& d, const Datatype& inner) {
  Assembly assembly;
  const std::int64_t block = std::min(d.block, d.size);
  std::int64_t start = 0;
  if (__builtin_mul_overflow(d.coordinate, block, &start) || start >= d.size) return std::move(assembly).finish({});
  // Units are elements, counted from `start`.  The process owns one block of each `cycle`: `full` whole blocks, and
  // `rest` elements of a last partial block, which begins at `behind`.
  const std::int64_t left = d.size - start;
  std::int64_t cycle = 0;
  if (__builtin_mul_overflow(block, d.processes, &cycle)) cycle = d.size;  // the process owns one block only
  const std::int64_t full = left < block ? 0 : (left - block) / cycle + 1;
  const std::int64_t behind = full * cycle;
  const std::int64_t rest = behind < left ? left - behind : 0;
  assembly.add(inner, block, d.step, 0);
  assembly.repeat(full, full > 1 ? cycle * d.step : 0);  // no overflow: cycle <= size, and size * step is checked
  assembly.shift(start * d.step);
  if (rest > 0) assembly.add(inner, rest, d.step, (start + behind) * d.step);
  return std::move(assembly).finish({});
}

}  // namespace

// Integers: processes, rank, number of dimensions | sizes, distributions, their arguments, sizes of the grid | order.
Result<DatatypeRef> construct_darray(Recipe recipe) {
  Arguments integers{recipe.integers};
  const std::int64_t processes = integers.next();
  std::int64_t rank = integers.next();
  const std::int64_t number = integers.next();
  const Counts sizes = integers.list(number);
  const Counts distributions = integers.list(number);
  const Counts arguments = integers.list(number);
  const Counts grid_sizes = integers.list(number);
  const auto order = static_cast<Order>(integers.next());
  if (number == 0) return bad("no dimension");
  if (order != Order::c && order != Order::fortran) return bad("an unknown order");
  const std::size_t dimensions = sizes.size();
  const DatatypeRef element = recipe.types[0];
  std::int64_t grid = 1;
  std::int64_t bytes = element->extent();
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (sizes[d] < 1 || grid_sizes[d] < 1) return bad("an array or grid size below 1");
    if (__builtin_mul_overflow(grid, grid_sizes[d], &grid)) return bad("too many processes in the grid");
    if (__builtin_mul_overflow(bytes, sizes[d], &bytes)) return Error{Errc::limit_reached, 0, "size of an array"};
  }
  if (grid != processes || rank < 0 || rank >= processes) {
    return bad("the grid has another number of processes, or the rank is not in it");
  }

  std::vector<std::int64_t> coordinates(dimensions);
  for (std::size_t d = dimensions; d-- > 0;) {  // the grid is in C order: its last dimension is the fastest
    coordinates[d] = rank % grid_sizes[d];
    rank /= grid_sizes[d];
  }
  DatatypeRef built = element;
  std::int64_t step = element->extent();
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t d = order == Order::fortran ? i : dimensions - 1 - i;
    OPAL_TRY_ASSIGN(const std::int64_t block, block_size(distributions[d], arguments[d], sizes[d], grid_sizes[d]));
    OPAL_TRY_ASSIGN(built, distributed({sizes[d], step, block, grid_sizes[d], coordinates[d]}, *built));
    step *= sizes[d];  // no overflow: checked with `bytes` above
  }
  // The explicit bounds, as of a resized type, are those of the whole array.
  Bounds bounds = built->bounds();
  bounds.marker_lb = 0;
  bounds.marker_ub = bytes;
  bounds.has_markers = true;
  return handle::create<Datatype>(bounds, built->layout(), std::move(recipe));
}

}  // namespace mpi_shim::datatype
