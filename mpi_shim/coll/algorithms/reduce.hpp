// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/reduce.hpp — writes down what this process does in reductions.  `in` and `out` have the same
// count and type; MPI_IN_PLACE has become in == out before (for reduce: at the root).  Operations that do not commute
// are applied in the order of ranks.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// Binomial tree; rooted at `root` when the operation commutes, at rank 0 otherwise.  `out` counts at the root only.
void build_reduce(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op, int root);

/// Recursive doubling for small messages (Thakur, Rabenseifner, Gropp 2005, section 4.5, also for sizes that are no
/// power of two); for large ones with a commuting operation a ring of reduce-scatter and allgather.
void build_allreduce(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op);

/// `in` is all ranks' parts one after the other, `counts` their elements, `out` this rank's part.  Pairwise exchange;
/// the parts are reduced in the order of ranks when the operation does not commute.
void build_reduce_scatter(Schedule& schedule, const Buffer& in, const Buffer& out,
                          std::span<const std::uint64_t> counts, const op::Op& op);

/// Recursive doubling; `exclusive`: MPI_Exscan, which leaves rank 0's `out` alone.
void build_scan(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op, bool exclusive);

}  // namespace mpi_shim::coll
