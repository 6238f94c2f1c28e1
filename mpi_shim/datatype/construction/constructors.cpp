// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/construction/constructors.hpp"

#include <algorithm>
#include <vector>

#include "mpi_shim/datatype/construction/arguments.hpp"
#include "mpi_shim/datatype/construction/assembly.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

Error invalid(const char* what) { return {Errc::invalid_argument, 0, what}; }
Error too_large(const char* what) { return {Errc::limit_reached, 0, what}; }

/// MPI_Type_contiguous, _vector and _create_hvector.  Integers: count | block length, stride.  A stride in bytes
/// (_create_hvector) is in the addresses.
Result<void> add_vector(Assembly& assembly, const Recipe& recipe) {
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
  assembly.add(part, length, part.extent(), 0);
  if (!contiguous) assembly.repeat(count, stride);
  return {};
}

/// MPI_Type_indexed, _create_struct and the others with a list of blocks.  Integers: count | block lengths, or one for
/// all blocks | displacements.  Displacements in bytes are in the addresses.
Result<void> add_blocks(Assembly& assembly, const Recipe& recipe) {
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
    assembly.add(part, lengths[equal ? 0 : i], part.extent(), place);
  }
  return {};
}

/// MPI_Type_create_resized.  Addresses: lower bound, extent.
Result<void> add_resized(Assembly& assembly, const Recipe& recipe) {
  std::int64_t ub = 0;
  if (__builtin_add_overflow(recipe.addresses[0], recipe.addresses[1], &ub)) return too_large("lower bound + extent");
  assembly.add(*recipe.types[0], 1, 0, 0);
  assembly.set_markers(recipe.addresses[0], ub);
  return {};
}

/// MPI_Type_create_subarray.  Integers: number of dimensions | sizes of the array, sizes and starts of the section |
/// order. The type has the bounds of the whole array.
Result<void> add_section(Assembly& assembly, const Recipe& recipe) {
  const Datatype& part = *recipe.types[0];
  Arguments integers{recipe.integers};
  const std::int64_t dimensions = integers.next();
  const Counts sizes = integers.list(dimensions);
  const Counts subsizes = integers.list(dimensions);
  const Counts starts = integers.list(dimensions);
  const auto order = static_cast<Order>(integers.next());
  if (dimensions == 0) return invalid("no dimension");
  if (order != Order::c && order != Order::fortran) return invalid("an unknown order");
  std::int64_t step = part.extent();  // bytes between neighbours in dimension d
  std::int64_t start = 0;             // bytes from the start of the array to the section
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t d = order == Order::fortran ? i : sizes.size() - 1 - i;  // fastest first
    if (sizes[d] < 1 || subsizes[d] < 1 || starts[d] < 0 || subsizes[d] > sizes[d] ||
        starts[d] > sizes[d] - subsizes[d]) {
      return invalid("the section is not inside its array");
    }
    if (i == 0) {
      assembly.add(part, subsizes[d], step, 0);
    } else {
      assembly.repeat(subsizes[d], step);
    }
    std::int64_t skipped = 0;
    if (__builtin_mul_overflow(starts[d], step, &skipped) || __builtin_add_overflow(start, skipped, &start) ||
        __builtin_mul_overflow(step, sizes[d], &step)) {
      return too_large("size of an array");
    }
  }
  assembly.shift(start);
  assembly.set_markers(0, step);
  return {};
}

Result<DatatypeRef> dup(Recipe recipe) {
  const DatatypeRef part = recipe.types[0];
  OPAL_TRY_ASSIGN(DatatypeRef copy, handle::create<Datatype>(part->bounds(), part->layout(), std::move(recipe)));
  if (part->is_committed()) copy->commit();
  return copy;
}

}  // namespace

Result<DatatypeRef> construct(Recipe recipe) {
  Assembly assembly;
  switch (recipe.combiner) {
    case Combiner::dup: return dup(std::move(recipe));
    case Combiner::darray: return construct_darray(std::move(recipe));
    case Combiner::contiguous:
    case Combiner::vector:
    case Combiner::hvector: OPAL_TRY(add_vector(assembly, recipe)); break;
    case Combiner::indexed:
    case Combiner::hindexed:
    case Combiner::indexed_block:
    case Combiner::hindexed_block:
    case Combiner::structure: OPAL_TRY(add_blocks(assembly, recipe)); break;
    case Combiner::resized: OPAL_TRY(add_resized(assembly, recipe)); break;
    case Combiner::subarray: OPAL_TRY(add_section(assembly, recipe)); break;
    default: return invalid("there is no such constructor");
  }
  return std::move(assembly).finish(std::move(recipe));
}

}  // namespace mpi_shim::datatype
