// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/fortran_kinds.hpp — datatypes by decimal precision and range, as Fortran selects its
// kinds. The same arguments give the same type each time; it is committed, belongs to MPI and lives until the process
// ends. Threads: safe from any thread.
#pragma once
#include <optional>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// What a program asks for; no value: it does not care (MPI_UNDEFINED).
struct FortranKind {
  Combiner combiner;  ///< f90_real, f90_complex or f90_integer
  std::optional<int> precision;
  std::optional<int> range;

  bool operator==(const FortranKind&) const = default;
};

/// The smallest type with at least that many decimal digits and that decimal exponent range; of integers, which have a
/// range only, the smallest that holds -10^range < i < 10^range.
/// `undefined` stands in the type's contents for what was not asked for.
/// Errors: not_supported (no type reaches so far), invalid_argument (nothing asked for), no_memory.
opal::Result<Datatype*> fortran_kind(const FortranKind& kind, int undefined);

/// How `type` was made: for one of these types what was asked for, else its recipe().
const Recipe& recipe_of(const Datatype& type);

/// The handle of the predefined type with the representation of `type`, one of these or predefined itself; 0 for a type
/// that the program derived.
std::uintptr_t predefined_handle(const Datatype& type);

}  // namespace mpi_shim::datatype
