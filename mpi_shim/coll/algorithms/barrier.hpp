// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/barrier.hpp — writes down what this process does in a barrier.
#pragma once
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

/// Dissemination (Hensgen, Finkel, Manber 1988): ceil(log2 n) rounds, in round k a word from rank - 2^k and to rank +
/// 2^k.
void build_barrier(Schedule& schedule);

}  // namespace mpi_shim::coll
