// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/alltoall.hpp"

#include "mpi_shim/coll/config.hpp"

namespace mpi_shim::coll {
namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

/// `out_to(rank)` and `in_from(rank)` return the block for or from a rank; null: no message.
template <class OutTo, class InFrom>
void exchange(Schedule& schedule, OutTo&& out_to, InFrom&& in_from) {
  const int size = schedule.size();
  const auto window = kAlltoallWindow;
  const int rank = schedule.rank();
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank - step + size) % size;
    if (const Buffer* const in = in_from(from)) schedule.receive(*in, from);
    if (const Buffer* const out = out_to(to)) schedule.send(*out, to);
    if (step % window == 0) schedule.end_round();
  }
  schedule.end_round();
}

auto of(const Blocks& blocks) {
  return [&blocks](int rank) { return &blocks[at(rank)]; };
}
auto of(std::span<const Buffer* const> blocks) {
  return [blocks](int rank) { return blocks[at(rank)]; };
}

}  // namespace

void build_alltoall(Schedule& schedule, const Blocks& out, const Blocks& in) {
  schedule.copy(out[at(schedule.rank())], in[at(schedule.rank())]);
  exchange(schedule, of(out), of(in));
}

void build_alltoall_in_place(Schedule& schedule, const Blocks& blocks) {
  // The first round copies all outgoing blocks, since the receives overwrite them.
  Blocks aside(blocks.size());
  for (int other = 0; other < schedule.size(); ++other) {
    if (other == schedule.rank()) continue;
    const Buffer& block = blocks[at(other)];
    aside[at(other)] = Buffer::of_bytes(schedule.scratch(block.bytes()), block.bytes());
    schedule.copy(block, aside[at(other)]);
  }
  schedule.end_round();
  exchange(schedule, of(aside), of(blocks));
}

void build_exchange(Schedule& schedule, std::span<const Buffer* const> out, std::span<const Buffer* const> in) {
  exchange(schedule, of(out), of(in));
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
