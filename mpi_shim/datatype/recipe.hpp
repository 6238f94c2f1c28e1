// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/recipe.hpp — how a datatype was made: what MPI_Type_get_envelope and _get_contents report.
// Owned by its datatype; holds references to the parts, which therefore live as long.  Threads: immutable.
#pragma once
#include <cstdint>
#include <vector>

#include "mpi_shim/handle/object.hpp"

namespace mpi_shim::datatype {

class Datatype;

/// In the order of the standard; the values are the ABI's.
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

/// The arguments of the constructor, sorted as the standard's table for get_contents sorts them: counts and other
/// integers in `integers`, byte displacements in `addresses`.
struct Recipe {
  Combiner combiner = Combiner::named;
  std::vector<std::int64_t> integers;
  std::vector<std::int64_t> addresses;
  std::vector<handle::Ref<Datatype>> types;
  bool large_counts = false;  ///< the arguments were those of the constructor with MPI_Count
};

}  // namespace mpi_shim::datatype
