// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/bcast.hpp — writes down what this process does in a barrier or a broadcast.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// Dissemination (Hensgen, Finkel, Manber 1988): ceil(log2 n) rounds, in round k a word from rank - 2^k and to rank +
/// 2^k.
void build_barrier(Schedule& schedule);

/// Small messages go down a binomial tree; large ones are scattered down that tree and then gathered around a ring
/// (van de Geijn and Watts 1997), which moves each byte about twice however many ranks there are.
void build_bcast(Schedule& schedule, const Buffer& buffer, int root);

}  // namespace mpi_shim::coll
