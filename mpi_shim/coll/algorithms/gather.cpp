// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/gather.hpp"

#include <algorithm>

#include "mpi_shim/coll/algorithms/tree.hpp"
#include "mpi_shim/coll/config.hpp"

// The copies of a round run after its messages (schedule.hpp).  So data to be sent are packed in an earlier round.

namespace mpi_shim::coll {
namespace {

const Buffer& block(const Blocks& blocks, int rank) { return blocks[static_cast<std::size_t>(rank)]; }

/// Whether a binomial tree is used: its extra copies pay off only for small blocks among many ranks.
bool takes_tree(const Schedule& schedule, std::uint64_t bytes) {
  return bytes < kGatherTreeBelow.bytes && schedule.size() >= kGatherTreeRanks;
}

/// Scratch memory for packed blocks.
class Packed {
 public:
  Packed(Schedule& schedule, int number, std::uint64_t bytes)
      : bytes_(bytes), packed_(schedule.scratch(bytes * static_cast<std::uint64_t>(number))) {}
  [[nodiscard]] Buffer blocks(int first, int count) const {
    return Buffer::of_bytes(packed_ + bytes_ * static_cast<std::uint64_t>(first),
                            bytes_ * static_cast<std::uint64_t>(count));
  }

 private:
  std::uint64_t bytes_;
  std::byte* packed_;
};

/// Bruck's algorithm.  Scratch memory has the blocks of the ranks rank, rank + 1, ... (modulo size) in this order.  The
/// last round copies each to its place in `blocks`.
void build_bruck(Schedule& schedule, const Buffer& own, const Blocks& blocks) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  const Packed packed{schedule, size, own.bytes()};
  schedule.copy(own, packed.blocks(0, 1));
  schedule.end_round();
  for (int have = 1; have < size; have *= 2) {
    const int more = std::min(have, size - have);
    schedule.receive(packed.blocks(have, more), (rank + have) % size);
    schedule.send(packed.blocks(0, more), (rank - have + size) % size);
    schedule.end_round();
  }
  for (int i = 0; i < size; ++i) schedule.copy(packed.blocks(i, 1), block(blocks, (rank + i) % size));
  schedule.end_round();
}

// Both tree algorithms pack the blocks of a process's subtree in the order of positions (tree.hpp), its own first.
void build_gather_tree(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root,
                       std::uint64_t bytes) {
  const BinomialTree tree{schedule.rank(), schedule.size(), root};
  const Packed packed{schedule, tree.subtree(), bytes};
  if (own) schedule.copy(*own, packed.blocks(0, 1));
  for (const BinomialTree::Child& child : tree.children()) {
    schedule.receive(packed.blocks(child.position - tree.position(), child.subtree), child.rank);
  }
  schedule.end_round();
  if (tree.parent() >= 0) {
    schedule.send(packed.blocks(0, tree.subtree()), tree.parent());
  } else {
    // MPI_IN_PLACE: the root's block, at position 0, is in `blocks` already.
    for (int position = own ? 0 : 1; position < schedule.size(); ++position) {
      schedule.copy(packed.blocks(position, 1), block(blocks, (root + position) % schedule.size()));
    }
  }
  schedule.end_round();
}

void build_scatter_tree(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root,
                        std::uint64_t bytes) {
  const BinomialTree tree{schedule.rank(), schedule.size(), root};
  const Packed packed{schedule, tree.subtree(), bytes};
  if (tree.parent() >= 0) {
    schedule.receive(packed.blocks(0, tree.subtree()), tree.parent());
  } else {
    for (int position = 0; position < schedule.size(); ++position) {
      schedule.copy(block(blocks, (root + position) % schedule.size()), packed.blocks(position, 1));
    }
  }
  schedule.end_round();
  for (const BinomialTree::Child& child : tree.children()) {
    schedule.send(packed.blocks(child.position - tree.position(), child.subtree), child.rank);
  }
  if (own) schedule.copy(packed.blocks(0, 1), *own);
  schedule.end_round();
}

/// Messages directly between the root and each other rank.  `gathers`: to the root; otherwise from the root.
void build_straight(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root,
                    bool gathers) {
  const auto exchange = [&](const Buffer& buffer, int rank) {
    gathers == (schedule.rank() == root) ? schedule.receive(buffer, rank) : schedule.send(buffer, rank);
  };
  if (schedule.rank() != root) {
    exchange(*own, root);
    return schedule.end_round();
  }
  for (int rank = 0; rank < schedule.size(); ++rank) {
    if (rank != root) exchange(block(blocks, rank), rank);
  }
  if (own) gathers ? schedule.copy(*own, block(blocks, root)) : schedule.copy(block(blocks, root), *own);
  schedule.end_round();
}

}  // namespace

// Only the root may have no `own` (MPI_IN_PLACE); it has `blocks`.

void build_gather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  const std::uint64_t bytes = own ? own->bytes() : block(blocks, root).bytes();
  if (takes_tree(schedule, bytes)) {
    build_gather_tree(schedule, own, blocks, root, bytes);
  } else {
    build_gatherv(schedule, own, blocks, root);
  }
}

void build_scatter(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  const std::uint64_t bytes = own ? own->bytes() : block(blocks, root).bytes();
  if (takes_tree(schedule, bytes)) {
    build_scatter_tree(schedule, own, blocks, root, bytes);
  } else {
    build_scatterv(schedule, own, blocks, root);
  }
}

void build_gatherv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  build_straight(schedule, own, blocks, root, true);
}

void build_scatterv(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  build_straight(schedule, own, blocks, root, false);
}

void build_allgather(Schedule& schedule, const std::optional<Buffer>& own, const Blocks& blocks) {
  const Buffer& mine = block(blocks, schedule.rank());
  if (mine.bytes() < kAllgatherBruckBelow.bytes && schedule.size() > 2) {  // for two ranks the ring is one round
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
