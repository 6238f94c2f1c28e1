// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/constructors.hpp — the standard's type constructors.  Each gives a new, uncommitted
// type that keeps its parts alive.  Threads: safe from any thread. Errors of all: invalid_argument (a negative count or
// block length, lists of different lengths, an array section outside of its array), limit_reached (a size or bound
// beyond 63 bits), no_memory.
#pragma once
#include <cstdint>
#include <span>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

using Counts = std::span<const std::int64_t>;

opal::Result<DatatypeRef> contiguous(std::int64_t count, Datatype& part);

/// `stride` in extents of the part.
opal::Result<DatatypeRef> vector(std::int64_t count, std::int64_t block_length, std::int64_t stride, Datatype& part);
/// `stride` in bytes.
opal::Result<DatatypeRef> hvector(std::int64_t count, std::int64_t block_length, std::int64_t stride, Datatype& part);

/// `displacements` in extents of the part.
opal::Result<DatatypeRef> indexed(Counts block_lengths, Counts displacements, Datatype& part);
/// `displacements` in bytes.
opal::Result<DatatypeRef> hindexed(Counts block_lengths, Counts displacements, Datatype& part);

/// `displacements` in extents of the part.
opal::Result<DatatypeRef> indexed_block(std::int64_t block_length, Counts displacements, Datatype& part);
/// `displacements` in bytes.
opal::Result<DatatypeRef> hindexed_block(std::int64_t block_length, Counts displacements, Datatype& part);

/// `displacements` in bytes.
opal::Result<DatatypeRef> structure(Counts block_lengths, Counts displacements, std::span<Datatype* const> parts);

/// The same data with explicit lower bound and extent in bytes.
opal::Result<DatatypeRef> resized(Datatype& part, std::int64_t lb, std::int64_t extent);

/// A committed copy if the part is committed.
opal::Result<DatatypeRef> dup(Datatype& part);

/// The values are the ABI's.
enum class Order : int { c = 12, fortran = 15 };

/// The section [starts, starts + subsizes) of an array of `sizes`; its bounds are those of the whole array.
opal::Result<DatatypeRef> subarray(Counts sizes, Counts subsizes, Counts starts, Order order, Datatype& part);

/// How one dimension of an array is spread over processes; the values are the ABI's.
enum class Distribution : int { none = 16, block = 17, cyclic = 18 };
/// MPI_DISTRIBUTE_DFLT_DARG in the ABI.  A block size of 19 cannot be told from it.
inline constexpr std::int64_t kDefaultArgument = 19;

/// A global array spread over a grid of processes.
struct DistributedArray {
  std::int64_t processes;                       ///< in the grid: the product of grid_sizes
  std::int64_t rank;                            ///< of the process whose elements the type describes
  Counts sizes;                                 ///< of the global array
  std::span<const Distribution> distributions;  ///< one for each dimension, like the following
  Counts arguments;                             ///< block sizes, or kDefaultArgument
  Counts grid_sizes;
  Order order;  ///< of the array; the grid is in C order always
};

/// The elements of the array that the process owns, in storage order; its bounds are those of the whole array.
opal::Result<DatatypeRef> darray(const DistributedArray& array, Datatype& part);

}  // namespace mpi_shim::datatype
