// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/inter.hpp"

#include "mpi_shim/coll/algorithms/algorithms.hpp"

namespace mpi_shim::coll {
namespace {

/// The rank 0 of each side sends `mine` to the other and receives `theirs`.  Other processes add no steps.
void build_swap(Schedule& schedule, const TwoSides& sides, const Buffer& mine, const Buffer& theirs) {
  if (sides.own.rank() != 0) return;
  schedule.set_team(sides.other);
  schedule.receive(theirs, 0);
  schedule.send(mine, 0);
  schedule.end_round();
  schedule.set_team(sides.own);
}

/// Scratch memory for the result of a side at its rank 0; an empty Buffer in other processes.
Buffer result_of_side(Schedule& schedule, const TwoSides& sides, const Buffer& like) {
  return sides.own.rank() == 0 ? schedule.scratch_like(like) : Buffer{};
}

}  // namespace

void build_inter_barrier(Schedule& schedule, const TwoSides& sides) {
  build_barrier(schedule);
  build_swap(schedule, sides, {}, {});
  build_bcast(schedule, {}, 0);
}

void build_inter_bcast(Schedule& schedule, const TwoSides& sides, const Buffer& buffer, int root) {
  if (root == MPI_PROC_NULL) return;
  if (root == MPI_ROOT) {
    schedule.set_team(sides.other);
    schedule.send(buffer, 0);
    schedule.end_round();
    return;
  }
  if (sides.own.rank() == 0) {
    schedule.set_team(sides.other);
    schedule.receive(buffer, root);
    schedule.end_round();
    schedule.set_team(sides.own);
  }
  build_bcast(schedule, buffer, 0);
}

void build_inter_rooted(Schedule& schedule, const TwoSides& sides, bool gathers, const Buffer& own,
                        const Blocks& blocks, int root) {
  if (root == MPI_PROC_NULL) return;
  const bool is_root = root == MPI_ROOT;
  const auto exchange = [&](const Buffer& buffer, int rank) {
    gathers == is_root ? schedule.receive(buffer, rank) : schedule.send(buffer, rank);
  };
  schedule.set_team(sides.other);
  if (!is_root) exchange(own, root);
  for (int rank = 0; is_root && rank < sides.other.size(); ++rank) {
    exchange(blocks[static_cast<std::size_t>(rank)], rank);
  }
  schedule.end_round();
}

void build_inter_allgather(Schedule& schedule, const TwoSides& sides, const Buffer& own, const Blocks& blocks) {
  build_inter_alltoall(schedule, sides, Blocks(static_cast<std::size_t>(sides.other.size()), own), blocks);
}

void build_inter_alltoall(Schedule& schedule, const TwoSides& sides, const Blocks& out, const Blocks& in) {
  schedule.set_team(sides.other);
  const int size = sides.other.size();
  for (int step = 0; step < size; ++step) {  // start at the own rank, so that not all processes send to rank 0 first
    const int rank = (sides.own.rank() + step) % size;
    schedule.receive(in[static_cast<std::size_t>(rank)], rank);
    schedule.send(out[static_cast<std::size_t>(rank)], rank);
  }
  schedule.end_round();
}

void build_inter_reduce(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                        const op::Op& op, int root) {
  if (root == MPI_PROC_NULL) return;
  if (root == MPI_ROOT) {
    schedule.set_team(sides.other);
    schedule.receive(out, 0);
    schedule.end_round();
    return;
  }
  const Buffer result = result_of_side(schedule, sides, in);
  build_reduce(schedule, in, result, op, 0);
  if (sides.own.rank() != 0) return;
  schedule.set_team(sides.other);
  schedule.send(result, root);
  schedule.end_round();
}

void build_inter_allreduce(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                           const op::Op& op) {
  const Buffer result = result_of_side(schedule, sides, in);
  build_reduce(schedule, in, result, op, 0);
  build_swap(schedule, sides, result, out);
  build_bcast(schedule, out, 0);
}

void build_inter_reduce_scatter(Schedule& schedule, const TwoSides& sides, const Buffer& in, const Buffer& out,
                                std::span<const std::uint64_t> counts, const op::Op& op) {
  const Buffer result = result_of_side(schedule, sides, in);
  build_reduce(schedule, in, result, op, 0);
  const Buffer theirs = result_of_side(schedule, sides, in);
  build_swap(schedule, sides, result, theirs);
  Blocks parts;
  std::uint64_t first = 0;
  for (const std::uint64_t count : counts) {
    if (sides.own.rank() == 0) parts.push_back(theirs.part(first, count));
    first += count;
  }
  build_rooted(schedule, {Rooted::Way::scatter, Rooted::Sizes::any}, out, parts, 0);
}

}  // namespace mpi_shim::coll
