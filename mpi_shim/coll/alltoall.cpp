// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/alltoall.hpp"

#include "mpi_shim/coll/config.hpp"

namespace mpi_shim::coll {

void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in) {
  const int size = schedule.size();
  const auto window = static_cast<int>(schedule.config().alltoall_window);
  const int rank = schedule.rank();
  const auto at = [](int of) { return static_cast<std::size_t>(of); };
  schedule.copy(out[at(rank)], in[at(rank)]);
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank - step + size) % size;
    schedule.receive(in[at(from)], from);
    schedule.send(out[at(to)], to);
    if (step % window == 0) schedule.end_round();
  }
  schedule.end_round();
}

void build_alltoall_in_place(Schedule& schedule, const Blocks& blocks) {
  const int size = schedule.size();
  const auto window = static_cast<int>(schedule.config().alltoall_window);
  const int rank = schedule.rank();
  const auto at = [](int of) { return static_cast<std::size_t>(of); };
  // All that leaves is put aside first; then everything is an ordinary exchange.
  Blocks aside(blocks.size());
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const Buffer& block = blocks[at(other)];
    aside[at(other)] = Buffer::of_bytes(schedule.scratch(block.bytes()), block.bytes());
    schedule.copy(block, aside[at(other)]);
  }
  schedule.end_round();
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank - step + size) % size;
    schedule.receive(blocks[at(from)], from);
    schedule.send(aside[at(to)], to);
    if (step % window == 0) schedule.end_round();
  }
  schedule.end_round();
}

}  // namespace mpi_shim::coll
