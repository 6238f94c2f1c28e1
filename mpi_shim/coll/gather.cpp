// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/gather.hpp"

#include <algorithm>

namespace mpi_shim::coll {
namespace {

constexpr std::uint64_t kBruckBelow = 2048;  // bytes of a block; above, copying costs more than rounds

const Buffer& block(const Blocks& blocks, int rank) { return blocks[static_cast<std::size_t>(rank)]; }

/// Blocks travel packed and in an order that starts with one's own; the last step puts them where they belong.
void build_bruck(Schedule& schedule, const Buffer& own, const Blocks& blocks) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  const std::uint64_t bytes = own.bytes();
  std::byte* const packed = schedule.scratch(bytes * static_cast<std::uint64_t>(size));
  const auto packed_blocks = [&](int first, int count) {
    return Buffer::of_bytes(packed + bytes * static_cast<std::uint64_t>(first),
                            bytes * static_cast<std::uint64_t>(count));
  };
  schedule.copy(own, packed_blocks(0, 1));
  schedule.end_round();
  for (int have = 1; have < size; have *= 2) {
    const int more = std::min(have, size - have);
    schedule.receive(packed_blocks(have, more), (rank + have) % size);
    schedule.send(packed_blocks(0, more), (rank - have + size) % size);
    schedule.end_round();
  }
  for (int i = 0; i < size; ++i) schedule.copy(packed_blocks(i, 1), block(blocks, (rank + i) % size));
  schedule.end_round();
}

}  // namespace

void build_gather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  if (schedule.rank() != root) {
    schedule.send(*own, root);
    schedule.end_round();
    return;
  }
  for (int rank = 0; rank < schedule.size(); ++rank) {
    if (rank != root) {
      schedule.receive(block(blocks, rank), rank);
    } else if (own) {
      schedule.copy(*own, block(blocks, rank));
    }
  }
  schedule.end_round();
}

void build_scatter(Schedule& schedule, const Blocks& blocks, const std::optional<Buffer>& own, int root) {
  if (schedule.rank() != root) {
    schedule.receive(*own, root);
    schedule.end_round();
    return;
  }
  for (int rank = 0; rank < schedule.size(); ++rank) {
    if (rank != root) {
      schedule.send(block(blocks, rank), rank);
    } else if (own) {
      schedule.copy(block(blocks, rank), *own);
    }
  }
  schedule.end_round();
}

void build_allgather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks) {
  const Buffer& mine = block(blocks, schedule.rank());
  if (mine.bytes() < kBruckBelow && schedule.size() > 2) {
    build_bruck(schedule, own ? *own : mine, blocks);
  } else {
    build_allgatherv(schedule, own, blocks);
  }
}

void build_allgatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  if (own) schedule.copy(*own, block(blocks, rank));
  schedule.end_round();
  const int next = (rank + 1) % size;
  const int previous = (rank - 1 + size) % size;
  for (int step = 0; step < size - 1; ++step) {
    schedule.receive(block(blocks, (previous - step + size) % size), previous);
    schedule.send(block(blocks, (rank - step + size) % size), next);
    schedule.end_round();
  }
}

}  // namespace mpi_shim::coll
