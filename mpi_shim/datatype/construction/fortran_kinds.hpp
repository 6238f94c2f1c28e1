// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/fortran_kinds.hpp — datatypes by decimal precision and range, as Fortran selects its
// kinds (MPI_Type_create_f90_real etc.).  Threads: safe from any thread.
#pragma once
#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// The first kind with at least `precision` decimal digits and the decimal exponent range `range`.  MPI_UNDEFINED sets
/// no limit.  For f90_integer only `range` counts: the smallest type that holds all i with -10^range < i < 10^range.
/// `combiner`: f90_real, f90_complex or f90_integer.
/// The same arguments return the same datatype.  It is committed and lives until the process ends.
/// Errors: not_supported (no kind is large enough), invalid_argument (both are MPI_UNDEFINED), no_memory.
opal::Result<Datatype*> fortran_kind(Combiner combiner, int precision, int range);

}  // namespace mpi_shim::datatype
