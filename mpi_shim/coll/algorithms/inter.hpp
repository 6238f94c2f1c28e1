// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/inter.hpp — the schedules of collectives on intercommunicators: the data of one side become
// the results of the other side.  `root` is MPI_ROOT at the root, MPI_PROC_NULL at the other processes of its side, and
// the root's rank in its group at the processes of the other side.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// The two groups of an intercommunicator, each as a part of the collectives' channel.
struct TwoSides {
  Team own;
  Team other;
};

void build_inter_barrier(Schedule& schedule, const TwoSides& sides);
/// The root sends to the other side's rank 0, which broadcasts within its side.
void build_inter_bcast(Schedule& schedule, const TwoSides& sides, const Buffer& buffer, int root);
/// Gather or scatter: messages directly between the root and each process of the other side.  The root uses `blocks`,
/// by rank of the other side; the processes of the other side use `own`.
void build_inter_rooted(Schedule& schedule, const TwoSides& sides, bool gathers, const Buffer& own,
                        const Blocks& blocks, int root);
/// Each process exchanges blocks with every process of the other side.  `blocks`, `out` and `in` are by rank of the
/// other side.
void build_inter_allgather(Schedule& schedule, const TwoSides& sides, const Buffer& own, const Blocks& blocks);
void build_inter_alltoall(Schedule& schedule, const TwoSides& sides, const Blocks& out, const Blocks& in);
/// The side without the root reduces to its rank 0, which sends the result to the root.
void build_inter_reduce(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                        const op::Op& op, int root);
/// Both sides reduce to their rank 0.  The two rank 0 exchange the results and broadcast them within their sides.
void build_inter_allreduce(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                           const op::Op& op);
/// As build_inter_allreduce(), but rank 0 scatters the other side's result within its side: counts[r] elements for rank
/// r of the own side.
void build_inter_reduce_scatter(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                                std::span<const std::uint64_t> counts, const op::Op& op);

}  // namespace mpi_shim::coll
