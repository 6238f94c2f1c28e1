// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/recipe.hpp — the constructor call that made a datatype, as MPI_Type_get_envelope and _get_contents
// report it.  Owned by its datatype; its references keep the parts alive.  Threads: immutable.
#pragma once
#include <cstdint>
#include <vector>

#include "mpi_shim/handle/object.hpp"

namespace mpi_shim::datatype {

class Datatype;

/// The constructor, in the order of the standard; the values are the ABI's.
enum class Combiner : int {
  named = 101,
  dup,
  contiguous,
  vector,
  hvector,
  indexed,
  hindexed,
  indexed_block,
  hindexed_block,
  structure,
  subarray,
  darray,
  f90_real,
  f90_complex,
  f90_integer,
  resized,
  value_index,
};

/// The arguments of the constructor in the order that the standard defines for MPI_Type_get_contents: counts and other
/// integers in `integers`, byte displacements in `addresses`, datatypes in `types`.
struct Recipe {
  Combiner combiner = Combiner::named;
  std::vector<std::int64_t> integers;
  std::vector<std::int64_t> addresses;
  std::vector<handle::Ref<Datatype>> types;
  bool large_counts = false;  ///< the application called the constructor with counts of MPI_Count (_c)
};

}  // namespace mpi_shim::datatype
