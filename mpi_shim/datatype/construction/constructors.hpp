// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/constructors.hpp — the standard's type constructors: make a datatype from its recipe.
// Threads: safe from any thread.
#pragma once
#include <cstdint>
#include <span>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// A view of integer arguments of a recipe: counts, lengths, displacements, distributions.
using Counts = std::span<const std::int64_t>;

/// The order of an array's elements, in a recipe; the values are the ABI's.
enum class Order : int { c = 12, fortran = 15 };

/// How one dimension of an array is spread over processes, in a recipe; the values are the ABI's.
enum class Distribution : int { none = 16, block = 17, cyclic = 18 };

/// MPI_DISTRIBUTE_DFLT_DARG in the ABI, so an explicit block size of 19 in MPI_Type_create_darray means the default.
inline constexpr std::int64_t kDefaultArgument = 19;

/// A new datatype that keeps its parts alive.  It is uncommitted, unless it is the dup of a committed one.  Requires:
/// the recipe has the number of arguments and parts that its constructor has; no reference in recipe.types is empty.
/// Errors: invalid_argument (a combiner without a constructor here: named, f90_*, value_index; a negative count or
/// block length, an array section outside its array), limit_reached (a size or bound beyond 63 bits), no_memory.
opal::Result<DatatypeRef> construct(Recipe recipe);

}  // namespace mpi_shim::datatype
