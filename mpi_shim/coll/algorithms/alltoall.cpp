// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/algorithms.hpp"

namespace mpi_shim::coll {

std::vector<const Buffer*> addresses_of(const Blocks& blocks) {
  std::vector<const Buffer*> addresses;
  addresses.reserve(blocks.size());
  for (const Buffer& block : blocks) addresses.push_back(&block);
  return addresses;
}

void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in) {
  const auto own = static_cast<std::size_t>(schedule.rank());
  if (&out != &in) {
    schedule.copy(out[own], in[own]);
    return build_exchange(schedule, addresses_of(out), addresses_of(in));
  }
  // MPI_IN_PLACE: the first round copies all outgoing blocks, since the receives overwrite them.
  Blocks copies(in.size());
  for (std::size_t other = 0; other < in.size(); ++other) {
    if (other == own) continue;
    copies[other] = Buffer::of_bytes(schedule.scratch(in[other].bytes()), in[other].bytes());
    schedule.copy(in[other], copies[other]);
  }
  schedule.end_round();
  build_exchange(schedule, addresses_of(copies), addresses_of(in));
}

void build_exchange(Schedule& schedule, std::span<const Buffer* const> out, std::span<const Buffer* const> in) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank - step + size) % size;
    if (const Buffer* const block = in[static_cast<std::size_t>(from)]) schedule.receive(*block, from);
    if (const Buffer* const block = out[static_cast<std::size_t>(to)]) schedule.send(*block, to);
    if (step % kAlltoallWindow == 0) schedule.end_round();
  }
  schedule.end_round();
}

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
