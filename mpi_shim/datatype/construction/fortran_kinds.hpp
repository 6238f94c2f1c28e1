// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/fortran_kinds.hpp — datatypes by decimal precision and range, as Fortran selects its
// kinds. The same arguments give the same type each time; it is committed, belongs to MPI and lives until the process
// ends. Threads: safe from any thread.
#pragma once
#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// The smallest type with at least that many decimal digits and that decimal exponent range; of integers, which have a
/// range only, the smallest that holds -10^range < i < 10^range.  MPI_UNDEFINED: does not matter.
/// `combiner`: f90_real, f90_complex or f90_integer.
/// Errors: not_supported (no type reaches so far), invalid_argument (nothing asked for), no_memory.
opal::Result<Datatype*> fortran_kind(Combiner combiner, int precision, int range);

}  // namespace mpi_shim::datatype
