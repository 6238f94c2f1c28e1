// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/constructors.hpp — the standard's type constructors: from a recipe to the type.
// Threads: safe from any thread.
#pragma once
#include <cstdint>
#include <span>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

using Counts = std::span<const std::int64_t>;

/// The order of an array's elements, in a recipe; the values are the ABI's.
enum class Order : int { c = 12, fortran = 15 };

/// How one dimension of an array is spread over processes, in a recipe; the values are the ABI's.
enum class Distribution : int { none = 16, block = 17, cyclic = 18 };

/// MPI_DISTRIBUTE_DFLT_DARG in the ABI.  A block size of 19 cannot be told from it.
inline constexpr std::int64_t kDefaultArgument = 19;

/// A new type that keeps its parts alive, uncommitted unless it is the dup of a committed one.  Nothing of the recipe
/// is believed but that it has all its parts.  Errors: invalid_argument (arguments that the constructor does not have,
/// a negative count or block length, an array section outside of its array), limit_reached (a size or bound beyond 63
/// bits), no_memory.
opal::Result<DatatypeRef> construct(Recipe recipe);

}  // namespace mpi_shim::datatype
