// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/bcast.hpp — the schedules of barrier and broadcast.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// Dissemination (Hensgen, Finkel, Manber 1988): ceil(log2 n) rounds.  Round k receives an empty message from
/// rank - 2^k and sends one to rank + 2^k.
void build_barrier(Schedule& schedule);

/// Small messages use a binomial tree.  Large ones are scattered along that tree, then allgathered around a ring (van
/// de Geijn and Watts 1997); each rank then sends about twice the message, whatever the number of ranks.
/// A large message that is not contiguous here passes through scratch memory of its size.
void build_bcast(Schedule& schedule, const Buffer& buffer, int root);

}  // namespace mpi_shim::coll
