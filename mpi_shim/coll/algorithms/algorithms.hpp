// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/algorithms.hpp — the schedules of collectives on intracommunicators.
#pragma once
#include <optional>
#include <span>

#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/comm/topology.hpp"

namespace mpi_shim::coll {

/// A gather or a scatter.
struct Rooted {
  enum class Way : std::uint8_t { gather, scatter };
  enum class Sizes : std::uint8_t { equal, any };  ///< of the blocks; any: MPI_Gatherv, MPI_Scatterv
  Way way;
  Sizes sizes;
  [[nodiscard]] bool gathers() const noexcept { return way == Way::gather; }
};

// --- Barrier and broadcast (bcast.cpp)

/// Dissemination (Hensgen, Finkel, Manber 1988): ceil(log2 n) rounds.  Round k receives an empty message from
/// rank - 2^k and sends one to rank + 2^k.
void build_barrier(Schedule& schedule);

/// Small messages use a binomial tree.  Large ones are scattered along that tree, then allgathered around a ring (van
/// de Geijn and Watts 1997); each rank then sends about twice the message, whatever the number of ranks.
/// A large message that is not contiguous here passes through scratch memory of its size.
void build_bcast(Schedule& schedule, const Buffer& buffer, int root);

// --- Gather, scatter and allgather (gather.cpp).  blocks[r] is the block of rank r in the result or source of all; in
//     gather and scatter only the root has blocks.  `own` is this rank's separate buffer.  nullopt is MPI_IN_PLACE
//     (gather and scatter: at the root only): this rank's data are in blocks[rank].

/// Gather or scatter.  Small blocks of many ranks, of equal sizes, use a binomial tree (kGatherTreeBelow,
/// kGatherTreeRanks).  Others are messages directly to or from the root, all in one round.
void build_rooted(Schedule& schedule, Rooted kind, const std::optional<Buffer>& own, const Blocks& blocks, int root);

/// Requires: all blocks have the same size.  Small blocks use the algorithm of Bruck et al. 1997 (ceil(log2 n) rounds
/// with messages), others build_allgatherv().
void build_allgather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks);

/// A ring: n - 1 rounds with messages.  Each round passes one block to the next rank.
void build_allgatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks);

// --- Alltoall and neighbourhood exchanges (alltoall.cpp)

/// Pairwise exchanges, kAlltoallWindow per round.  Step k sends to rank + k and receives from rank - k, so each rank is
/// the target of one other rank per step.  &out == &in is MPI_IN_PLACE: it first copies all outgoing blocks to scratch
/// memory.  Otherwise the blocks of `out` and `in` do not overlap.
void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in);

/// By rank: the address of its block, valid while `blocks` lives and does not change.
std::vector<const Buffer*> addresses_of(const Blocks& blocks);

/// As build_alltoall(), without this rank's own block.  `out` and `in` are indexed by rank; null: no message.
void build_exchange(Schedule& schedule, std::span<const Buffer* const> out, std::span<const Buffer* const> in);

/// One round: a message from each source and to each destination of `neighbours`.  in[i] is from sources[i], out[i] is
/// for destinations[i].
void build_neighbour_alltoall(Schedule& schedule, const comm::Neighbours& neighbours, const Blocks& out,
                              const Blocks& in);

// --- Reductions (reduce.cpp, allreduce.cpp).  `in` and `out` have the same count and type, except in
//     build_reduce_scatter().  in.base() == out.base() is MPI_IN_PLACE (in build_reduce: at the root only).  Operations
//     that do not commute are applied in the order of ranks.

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
