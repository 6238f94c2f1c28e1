// SPDX-License-Identifier: Apache-2.0
// MPI_Type_create_darray: one dimension after the other, the fastest first.  Each is a struct of whole blocks and a
// last, cut-off block of the type of the dimension before.
#include <algorithm>
#include <vector>

#include "mpi_shim/datatype/checked.hpp"
#include "mpi_shim/datatype/construction/constructors.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

Error bad(const char* what, std::size_t dimension) { return {Errc::invalid_argument, 0, what, dimension}; }

// One dimension: `size` elements, `step` bytes apart, distributed in blocks of `block` elements over `processes`;
// `coordinate` is that of the process in this dimension of the grid.
struct Dimension {
  std::int64_t size;
  std::int64_t step;
  std::int64_t block;
  std::int64_t processes;
  std::int64_t coordinate;
};

Result<std::int64_t> block_size(Distribution distribution, std::int64_t argument, std::int64_t size,
                                std::int64_t processes, std::size_t dimension) {
  switch (distribution) {
    case Distribution::none:
      if (processes != 1) return bad("several processes in a dimension that is not distributed", dimension);
      return size;
    case Distribution::block: {
      if (argument == kDefaultArgument) return (size - 1) / processes + 1;
      std::int64_t covered = 0;
      if (argument < 1 || (multiply_checked(argument, processes, covered) && covered < size)) {
        return bad("the blocks do not cover the dimension", dimension);
      }
      return argument;
    }
    case Distribution::cyclic:
      if (argument == kDefaultArgument) return 1;
      if (argument < 1) return bad("a block size below 1", dimension);
      return argument;
  }
  return bad("an unknown distribution", dimension);
}

// The type of the elements of this dimension that the process owns; each element is an `inner`.
Result<DatatypeRef> distributed(const Dimension& d, Datatype& inner) {
  const std::int64_t block = std::min(d.block, d.size);
  std::int64_t start = 0;
  if (!multiply_checked(d.coordinate, block, start) || start >= d.size) return contiguous(0, inner);
  // In elements, counted from `start`: the process owns one block of each `cycle`.  `full` whole blocks, then `rest`
  // elements of a last, cut-off block that begins at `behind`.
  const std::int64_t left = d.size - start;
  std::int64_t cycle = 0;
  if (!multiply_checked(block, d.processes, cycle)) cycle = d.size;  // overflow: the process owns one block only
  const std::int64_t full = left < block ? 0 : (left - block) / cycle + 1;
  const std::int64_t behind = full * cycle;
  const std::int64_t rest = behind < left ? left - behind : 0;
  const std::int64_t stride =
      full > 1 ? cycle * d.step : 0;  // no overflow: cycle <= size, and darray() checks size * step
  OPAL_TRY_ASSIGN(const DatatypeRef whole_block, hvector(block, 1, d.step, inner));
  OPAL_TRY_ASSIGN(const DatatypeRef whole_blocks, hvector(full, 1, stride, *whole_block));
  OPAL_TRY_ASSIGN(const DatatypeRef cut_block, hvector(rest, 1, d.step, inner));
  const std::int64_t lengths[] = {1, 1};
  const std::int64_t displacements[] = {start * d.step, rest > 0 ? (start + behind) * d.step : 0};
  Datatype* parts[] = {whole_blocks.get(), cut_block.get()};
  return structure(lengths, displacements, parts);
}

}  // namespace

Result<DatatypeRef> darray(const DistributedArray& array, Datatype& element) {
  const std::size_t dimensions = array.sizes.size();
  if (dimensions == 0 || array.distributions.size() != dimensions || array.arguments.size() != dimensions ||
      array.grid_sizes.size() != dimensions) {
    return Error{Errc::invalid_argument, 0, "no dimension, or lists of different lengths"};
  }
  std::int64_t grid = 1;
  std::int64_t bytes = element.extent();
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (array.sizes[d] < 1 || array.grid_sizes[d] < 1) return bad("an array or grid size below 1", d);
    if (!multiply_checked(grid, array.grid_sizes[d], grid)) return bad("too many processes in the grid", d);
    if (!multiply_checked(bytes, array.sizes[d], bytes)) return Error{Errc::limit_reached, 0, "size of an array"};
  }
  if (grid != array.processes || array.rank < 0 || array.rank >= array.processes) {
    return Error{Errc::invalid_argument, 0, "the grid has another number of processes, or the rank is not in it"};
  }
  std::vector<std::int64_t> coordinates(dimensions);
  std::int64_t rank = array.rank;
  for (std::size_t d = dimensions; d-- > 0;) {  // the grid is in C order: its last dimension is the fastest
    coordinates[d] = rank % array.grid_sizes[d];
    rank /= array.grid_sizes[d];
  }

  DatatypeRef built = DatatypeRef::share(element);
  std::int64_t step = element.extent();
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t d = array.order == Order::fortran ? i : dimensions - 1 - i;
    OPAL_TRY_ASSIGN(const std::int64_t block,
                    block_size(array.distributions[d], array.arguments[d], array.sizes[d], array.grid_sizes[d], d));
    OPAL_TRY_ASSIGN(built, distributed({array.sizes[d], step, block, array.grid_sizes[d], coordinates[d]}, *built));
    step *= array.sizes[d];  // no overflow: checked with `bytes` above
  }

  // Explicit bounds, as by resized(): those of the whole array.
  Bounds bounds = built->bounds();
  bounds.marker_lb = 0;
  bounds.marker_ub = bytes;
  bounds.has_markers = true;
  // The arguments in the order of MPI_Type_get_contents; the enumerators have the ABI's values.
  Recipe recipe{Combiner::darray, {array.processes, array.rank, static_cast<std::int64_t>(dimensions)}, {}, {}};
  const auto list = [&](Counts values) { recipe.integers.insert(recipe.integers.end(), values.begin(), values.end()); };
  list(array.sizes);
  for (const Distribution distribution : array.distributions) recipe.integers.push_back(static_cast<int>(distribution));
  list(array.arguments);
  list(array.grid_sizes);
  recipe.integers.push_back(static_cast<int>(array.order));
  recipe.types.push_back(DatatypeRef::share(element));
  return handle::create<Datatype>(bounds, built->layout(), built->signature(), std::move(recipe));
}

}  // namespace mpi_shim::datatype
