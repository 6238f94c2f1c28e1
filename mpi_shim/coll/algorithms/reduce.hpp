// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/reduce.hpp — the schedules of reductions.  `in` and `out` have the same count and type,
// except in build_reduce_scatter().  in.base() == out.base() is MPI_IN_PLACE (in build_reduce: at the root only).
// Operations that do not commute are applied in the order of ranks.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// A binomial tree with its root at `root` when the operation commutes, at rank 0 otherwise.  Only the root uses `out`.
void build_reduce(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op, int root);

/// Recursive doubling (Thakur, Rabenseifner, Gropp 2005, section 4.5, with its extension to numbers of ranks that are
/// no power of two).  Large messages with a commuting operation: reduce-scatter and allgather around a ring.
void build_allreduce(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op);

/// `in` holds the parts of all ranks in order, counts[r] elements for rank r; `out` is this rank's part.  Pairwise
/// exchange.
void build_reduce_scatter(Schedule& schedule, const Buffer& in, const Buffer& out,
                          std::span<const std::uint64_t> counts, const op::Op& op);

/// Recursive doubling.  `exclusive`: MPI_Exscan, which does not write `out` at rank 0.
void build_scan(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op, bool exclusive);

}  // namespace mpi_shim::coll
