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

/// A new datatype that keeps its parts alive.  It is uncommitted, unless it is the dup of a committed one.  Requires:
/// the recipe has the number of arguments and parts that its constructor has; no reference in recipe.types is empty.
/// Errors: invalid_argument (a combiner without a constructor here: named, f90_*, value_index; a negative count or
/// block length, an array section outside its array), limit_reached (a size or bound beyond 63 bits), no_memory.
opal::Result<DatatypeRef> construct(Recipe recipe);

/// MPI_Type_create_f90_real etc. (fortran_kinds.cpp), which select a datatype as Fortran selects its kinds: the first
/// kind with at least `precision` decimal digits and the decimal exponent range `range`.  MPI_UNDEFINED sets no limit.
/// For f90_integer only `range` counts: the smallest type that holds all i with -10^range < i < 10^range.
/// `combiner`: f90_real, f90_complex or f90_integer.
/// The same arguments return the same datatype.  It is committed and lives until the process ends.
/// Errors: not_supported (no kind is large enough), invalid_argument (both are MPI_UNDEFINED), no_memory.
opal::Result<Datatype*> fortran_kind(Combiner combiner, int precision, int range);

}  // namespace mpi_shim::datatype
