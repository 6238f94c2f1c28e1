// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/construction/constructors.hpp"

#include <algorithm>
#include <vector>

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

Error invalid(const char* what) { return {Errc::invalid_argument, 0, what}; }
Error too_large(const char* what) { return {Errc::limit_reached, 0, what}; }

/// Reads the integers of a recipe from the front.  Requires: the recipe has all arguments of its constructor.
class Arguments {
 public:
  explicit Arguments(Counts words) noexcept : words_(words) {}

  std::int64_t next() noexcept { return list(1).front(); }
  /// The next `count` integers; a view into the borrowed list.
  Counts list(std::int64_t count) noexcept {
    const Counts taken = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(taken.size());
    return taken;
  }

 private:
  Counts words_;
};

/// The datatype, uncommitted.
Result<DatatypeRef> finish(LayoutBuilder& builder, Recipe recipe) {
  Layout layout = builder.finish();
  if (builder.overflowed()) return too_large("size or bounds of a datatype");
  return handle::create<Datatype>(builder.bounds(), std::move(layout), std::move(recipe));
}

/// Appends `count` copies of `part`, `stride` bytes apart, the first at `offset`.
void add(LayoutBuilder& builder, const Datatype& part, std::int64_t count, std::int64_t stride, std::int64_t offset) {
  builder.add(part.bounds(), part.layout(), count, stride, offset);
}

/// MPI_Type_contiguous, _vector and _create_hvector.  Integers: count | block length, stride.  A stride in bytes
/// (_create_hvector) is in the addresses.
Result<void> add_vector(LayoutBuilder& builder, const Recipe& recipe) {
  const Datatype& part = *recipe.types[0];
  const bool contiguous = recipe.combiner == Combiner::contiguous;
  const bool in_bytes = recipe.combiner == Combiner::hvector;
  Arguments integers{recipe.integers};
  const std::int64_t count = integers.next();
  const std::int64_t length = contiguous ? count : integers.next();
  std::int64_t stride = contiguous || in_bytes ? 0 : integers.next();
  if (count < 0) return invalid("a negative count");
  if (length < 0) return invalid("a negative block length");
  if (in_bytes) {
    stride = recipe.addresses[0];
  } else if (__builtin_mul_overflow(stride, part.extent(), &stride)) {
    return too_large("stride * extent");
  }
  add(builder, part, length, part.extent(), 0);
  if (!contiguous) builder.repeat(count, stride);
  return {};
}

/// MPI_Type_indexed, _create_struct and the others with a list of blocks.  Integers: count | block lengths, or one for
/// all blocks | displacements.  Displacements in bytes are in the addresses.
Result<void> add_blocks(LayoutBuilder& builder, const Recipe& recipe) {
  const bool own_parts = recipe.combiner == Combiner::structure;
  const bool equal = recipe.combiner == Combiner::indexed_block || recipe.combiner == Combiner::hindexed_block;
  const bool in_extents = recipe.combiner == Combiner::indexed || recipe.combiner == Combiner::indexed_block;
  Arguments integers{recipe.integers};
  const std::int64_t count = integers.next();
  const Counts lengths = integers.list(equal ? 1 : count);
  const Counts places = in_extents ? integers.list(count) : Counts{recipe.addresses};
  if (std::any_of(lengths.begin(), lengths.end(), [](std::int64_t length) { return length < 0; })) {
    return invalid("a negative block length");
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Datatype& part = *recipe.types[own_parts ? i : 0];
    std::int64_t place = places[i];
    if (in_extents && __builtin_mul_overflow(place, part.extent(), &place)) return too_large("displacement * extent");
    add(builder, part, lengths[equal ? 0 : i], part.extent(), place);
  }
  return {};
}

/// MPI_Type_create_resized.  Addresses: lower bound, extent.
Result<void> add_resized(LayoutBuilder& builder, const Recipe& recipe) {
  std::int64_t ub = 0;
  if (__builtin_add_overflow(recipe.addresses[0], recipe.addresses[1], &ub)) return too_large("lower bound + extent");
  add(builder, *recipe.types[0], 1, 0, 0);
  builder.set_markers(recipe.addresses[0], ub);
  return {};
}

/// MPI_Type_create_subarray.  Integers: number of dimensions | sizes of the array, sizes and starts of the section |
/// order. The type has the bounds of the whole array.
Result<void> add_section(LayoutBuilder& builder, const Recipe& recipe) {
  const Datatype& part = *recipe.types[0];
  Arguments integers{recipe.integers};
  const std::int64_t dimensions = integers.next();
  const Counts sizes = integers.list(dimensions);
  const Counts subsizes = integers.list(dimensions);
  const Counts starts = integers.list(dimensions);
  const std::int64_t order = integers.next();
  if (dimensions == 0) return invalid("no dimension");
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN) return invalid("an unknown order");
  std::int64_t step = part.extent();  // bytes between neighbours in dimension d
  std::int64_t start = 0;             // bytes from the start of the array to the section
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t d = order == MPI_ORDER_FORTRAN ? i : sizes.size() - 1 - i;  // fastest first
    if (sizes[d] < 1 || subsizes[d] < 1 || starts[d] < 0 || subsizes[d] > sizes[d] ||
        starts[d] > sizes[d] - subsizes[d]) {
      return invalid("the section is not inside its array");
    }
    if (i == 0) {
      add(builder, part, subsizes[d], step, 0);
    } else {
      builder.repeat(subsizes[d], step);
    }
    std::int64_t skipped = 0;
    if (__builtin_mul_overflow(starts[d], step, &skipped) || __builtin_add_overflow(start, skipped, &start) ||
        __builtin_mul_overflow(step, sizes[d], &step)) {
      return too_large("size of an array");
    }
  }
  builder.shift(start);
  builder.set_markers(0, step);
  return {};
}

Result<DatatypeRef> dup(Recipe recipe) {
  const DatatypeRef part = recipe.types[0];
  OPAL_TRY_ASSIGN(DatatypeRef copy, handle::create<Datatype>(part->bounds(), part->layout(), std::move(recipe)));
  if (part->is_committed()) copy->commit();
  return copy;
}

// One dimension: `size` elements, `step` bytes apart, distributed in blocks of `block` elements over `processes`.
// `coordinate`: the position of the process in this dimension of the process grid.
struct Dimension {
  std::int64_t size;
  std::int64_t step;
  std::int64_t block;
  std::int64_t processes;
  std::int64_t coordinate;
};

// The elements of a block.  MPI_DISTRIBUTE_DFLT_DARG is a number like any other, so it cannot be given as
// the size.
Result<std::int64_t> block_size(std::int64_t distribution, std::int64_t argument, std::int64_t size,
                                std::int64_t processes) {
  switch (distribution) {
    case MPI_DISTRIBUTE_NONE:
      if (processes != 1) return invalid("several processes in a dimension that is not distributed");
      return size;
    case MPI_DISTRIBUTE_BLOCK: {
      if (argument == MPI_DISTRIBUTE_DFLT_DARG) return (size - 1) / processes + 1;
      std::int64_t covered = 0;
      if (argument < 1 || (!__builtin_mul_overflow(argument, processes, &covered) && covered < size)) {
        return invalid("the blocks do not cover a dimension");
      }
      return argument;
    }
    case MPI_DISTRIBUTE_CYCLIC:
      if (argument == MPI_DISTRIBUTE_DFLT_DARG) return 1;
      if (argument < 1) return invalid("a block size below 1");
      return argument;
  }
  return invalid("an unknown distribution");
}

// The type of the elements of this dimension that the process owns; each element has the type `inner`.
Result<DatatypeRef> distributed(const Dimension& d, const Datatype& inner) {
  LayoutBuilder builder;
  const std::int64_t block = std::min(d.block, d.size);
  std::int64_t start = 0;
  if (__builtin_mul_overflow(d.coordinate, block, &start) || start >= d.size) return finish(builder, {});
  // Units are elements, counted from `start`.  The process owns one block of each `cycle`: `full` whole blocks, and
  // `rest` elements of a last partial block, which begins at `behind`.
  const std::int64_t left = d.size - start;
  std::int64_t cycle = 0;
  if (__builtin_mul_overflow(block, d.processes, &cycle)) cycle = d.size;  // the process owns one block only
  const std::int64_t full = left < block ? 0 : (left - block) / cycle + 1;
  const std::int64_t behind = full * cycle;
  const std::int64_t rest = behind < left ? left - behind : 0;
  add(builder, inner, block, d.step, 0);
  builder.repeat(full, full > 1 ? cycle * d.step : 0);  // no overflow: cycle <= size, and size * step is checked
  builder.shift(start * d.step);
  if (rest > 0) add(builder, inner, rest, d.step, (start + behind) * d.step);
  return finish(builder, {});
}

// MPI_Type_create_darray: builds one type per dimension, the fastest dimension first.  It consists of whole blocks and
// a last partial block; the elements of the blocks have the type of the previous dimension.
// Integers: processes, rank, number of dimensions | sizes, distributions, their arguments, sizes of the grid | order.
Result<DatatypeRef> darray(Recipe recipe) {
  Arguments integers{recipe.integers};
  const std::int64_t processes = integers.next();
  std::int64_t rank = integers.next();
  const std::int64_t number = integers.next();
  const Counts sizes = integers.list(number);
  const Counts distributions = integers.list(number);
  const Counts arguments = integers.list(number);
  const Counts grid_sizes = integers.list(number);
  const std::int64_t order = integers.next();
  if (number == 0) return invalid("no dimension");
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN) return invalid("an unknown order");
  const std::size_t dimensions = sizes.size();
  const DatatypeRef element = recipe.types[0];
  std::int64_t grid = 1;
  std::int64_t bytes = element->extent();
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (sizes[d] < 1 || grid_sizes[d] < 1) return invalid("an array or grid size below 1");
    if (__builtin_mul_overflow(grid, grid_sizes[d], &grid)) return invalid("too many processes in the grid");
    if (__builtin_mul_overflow(bytes, sizes[d], &bytes)) return too_large("size of an array");
  }
  if (grid != processes || rank < 0 || rank >= processes) {
    return invalid("the grid has another number of processes, or the rank is not in it");
  }

  std::vector<std::int64_t> coordinates(dimensions);
  for (std::size_t d = dimensions; d-- > 0;) {  // the grid is in C order: its last dimension is the fastest
    coordinates[d] = rank % grid_sizes[d];
    rank /= grid_sizes[d];
  }
  DatatypeRef built = element;
  std::int64_t step = element->extent();
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t d = order == MPI_ORDER_FORTRAN ? i : dimensions - 1 - i;
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

}  // namespace

Result<DatatypeRef> construct(Recipe recipe) {
  LayoutBuilder builder;
  switch (recipe.combiner) {
    case Combiner::dup: return dup(std::move(recipe));
    case Combiner::darray: return darray(std::move(recipe));
    case Combiner::contiguous:
    case Combiner::vector:
    case Combiner::hvector: OPAL_TRY(add_vector(builder, recipe)); break;
    case Combiner::indexed:
    case Combiner::hindexed:
    case Combiner::indexed_block:
    case Combiner::hindexed_block:
    case Combiner::structure: OPAL_TRY(add_blocks(builder, recipe)); break;
    case Combiner::resized: OPAL_TRY(add_resized(builder, recipe)); break;
    case Combiner::subarray: OPAL_TRY(add_section(builder, recipe)); break;
    default: return invalid("there is no such constructor");
  }
  return finish(builder, std::move(recipe));
}

}  // namespace mpi_shim::datatype
