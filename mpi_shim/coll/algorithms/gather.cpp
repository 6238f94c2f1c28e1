// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/algorithms.hpp"

#include <algorithm>

#include "mpi_shim/coll/algorithms/tree.hpp"

// The copies of a round run after its messages (schedule.hpp).  So data to be sent are packed in an earlier round.

namespace mpi_shim::coll {
namespace {

const Buffer& block(const Blocks& blocks, int rank) { return blocks[static_cast<std::size_t>(rank)]; }

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

/// A binomial tree.  Each process packs the blocks of its subtree in the order of positions (tree.hpp), its own first.
/// A scatter does the steps of a gather in the opposite order and direction.
void build_over_tree(Schedule& schedule, bool gathers, const std::optional<Buffer>& own, const Blocks& blocks, int root,
                     std::uint64_t bytes) {
  const BinomialTree tree{schedule.rank(), schedule.size(), root};
  const Packed packed{schedule, tree.subtree(), bytes};
  const auto copy = [&](const Buffer& a, const Buffer& b) { gathers ? schedule.copy(a, b) : schedule.copy(b, a); };
  const auto add_subtree = [&] {
    if (own) copy(*own, packed.blocks(0, 1));
    for (const BinomialTree::Child& child : tree.children()) {
      const Buffer theirs = packed.blocks(child.position - tree.position(), child.subtree);
      gathers ? schedule.receive(theirs, child.rank) : schedule.send(theirs, child.rank);
    }
    schedule.end_round();
  };
  if (gathers) add_subtree();
  if (tree.parent() >= 0) {
    const Buffer all = packed.blocks(0, tree.subtree());
    gathers ? schedule.send(all, tree.parent()) : schedule.receive(all, tree.parent());
  } else {
    // MPI_IN_PLACE: the root's block, at position 0, stays in `blocks`.
    for (int position = own ? 0 : 1; position < schedule.size(); ++position) {
      copy(packed.blocks(position, 1), block(blocks, (root + position) % schedule.size()));
    }
  }
  schedule.end_round();
  if (!gathers) add_subtree();
}

/// Messages directly between the root and each other rank.
void build_straight(Schedule& schedule, bool gathers, const std::optional<Buffer>& own, const Blocks& blocks,
                    int root) {
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
void build_rooted(Schedule& schedule, Rooted kind, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  const std::uint64_t bytes = own ? own->bytes() : block(blocks, root).bytes();
  // The extra copies of a tree pay off only for small blocks among many ranks.
  if (kind.sizes == Rooted::Sizes::equal && bytes < kGatherTreeBelow.bytes && schedule.size() >= kGatherTreeRanks) {
    build_over_tree(schedule, kind.gathers(), own, blocks, root, bytes);
  } else {
    build_straight(schedule, kind.gathers(), own, blocks, root);
  }
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
  const int next = (rank + 1) % size;
  const int previous = (rank - 1 + size) % size;
  for (int step = 0; step < size - 1; ++step) {
    schedule.receive(block(blocks, (previous - step + size) % size), previous);
    // The first message is sent from `own`: the copy of it may still lie in this core's cache only.
    schedule.send(own && step == 0 ? *own : block(blocks, (rank - step + size) % size), next);
    if (own && step == 0) schedule.copy(*own, block(blocks, rank));
    schedule.end_round();
  }
  if (own && size == 1) schedule.copy(*own, block(blocks, rank));
}

}  // namespace mpi_shim::coll
