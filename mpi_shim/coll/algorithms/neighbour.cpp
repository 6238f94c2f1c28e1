// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/neighbour.hpp"

namespace mpi_shim::coll {

void build_neighbour_alltoall(Schedule& schedule, const comm::Neighbours& neighbours, const Blocks& out,
                              const Blocks& in) {
  for (const std::size_t i : neighbours.receive_order) {
    if (neighbours.sources[i] != MPI_PROC_NULL) schedule.receive(in[i], neighbours.sources[i]);
  }
  for (std::size_t i = 0; i < neighbours.destinations.size(); ++i) {
    if (neighbours.destinations[i] != MPI_PROC_NULL) schedule.send(out[i], neighbours.destinations[i]);
  }
  schedule.end_round();
}

}  // namespace mpi_shim::coll
