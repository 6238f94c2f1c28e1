// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/inter.hpp — writes down what this process does in collectives on intercommunicators: data of
// one side become results of the other.  `own` and `other` are the sides as teams of the collectives' channel; rooted
// ones have MPI_ROOT, MPI_PROC_NULL or a rank of the other side as root.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// This process's way through an intercommunicator.
struct TwoSides {
  Team own;
  Team other;
};

void build_inter_barrier(Schedule& schedule, const TwoSides& sides);
/// Root to the other side's first process, which broadcasts there.
void build_inter_bcast(Schedule& schedule, const TwoSides& sides, const Buffer& buffer, int root);
/// All of the other side straight to or from the root; `blocks` and `own` as their sides need them.
void build_inter_gather(Schedule& schedule, const TwoSides& sides, const Buffer& own, const Blocks& blocks, int root);
void build_inter_scatter(Schedule& schedule, const TwoSides& sides, const Buffer& own, const Blocks& blocks, int root);
/// Each process's block to all of the other side.
void build_inter_allgather(Schedule& schedule, const TwoSides& sides, const Buffer& own, const Blocks& blocks);
void build_inter_alltoall(Schedule& schedule, const TwoSides& sides, const Blocks& out, const Blocks& in);
/// One side reduces to its first process, which sends the result to the root.
void build_inter_reduce(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                        const op::Op& op, int root);
/// Both sides reduce, their first processes swap the results and broadcast them.
void build_inter_allreduce(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                           const op::Op& op);
/// The same, each process getting its part: `counts` elements by rank of the own side.
void build_inter_reduce_scatter(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                                std::span<const std::uint64_t> counts, const op::Op& op);

}  // namespace mpi_shim::coll
