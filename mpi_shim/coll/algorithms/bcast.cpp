// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/algorithms.hpp"

#include "mpi_shim/coll/algorithms/tree.hpp"

namespace mpi_shim::coll {
namespace {

void build_binomial(Schedule& schedule, const Buffer& buffer, const BinomialTree& tree) {
  if (tree.parent() >= 0) {
    schedule.receive(buffer, tree.parent());
    schedule.end_round();
  }
  for (const BinomialTree::Child& child : tree.children()) schedule.send(buffer, child.rank);
  schedule.end_round();
}

/// The parts [from, to) of `bytes`, which are divided into `parts` parts.
Buffer cut(const Buffer& bytes, int from, int to, int parts) {
  const auto first = [&](int part) {
    return bytes.count() * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(parts);
  };
  return bytes.part(first(from), first(to) - first(from));
}

/// Requires: `buffer` is a Buffer::of_bytes(), so that all ranks divide it alike.
void build_scatter_ring(Schedule& schedule, const Buffer& buffer, int root, const BinomialTree& tree) {
  const int size = schedule.size();
  // Scatter: each child receives the parts of all positions of its subtree.
  if (tree.parent() >= 0) {
    schedule.receive(cut(buffer, tree.position(), tree.position() + tree.subtree(), size), tree.parent());
    schedule.end_round();
  }
  for (const BinomialTree::Child& child : tree.children()) {
    schedule.send(cut(buffer, child.position, child.position + child.subtree, size), child.rank);
  }
  schedule.end_round();
  // Allgather around the ring of positions.  The root receives nothing.  Other processes receive the parts of their
  // subtree a second time: leaving these out would be more complicated and save only a fraction of the bytes.
  const int position = tree.position();
  const int next = (position + 1) % size;
  const int previous = (position - 1 + size) % size;
  for (int step = 0; step < size - 1; ++step) {
    const int outgoing = (position - step + size) % size;
    const int incoming = (previous - step + size) % size;
    if (position != 0) schedule.receive(cut(buffer, incoming, incoming + 1, size), (previous + root) % size);
    if (next != 0) schedule.send(cut(buffer, outgoing, outgoing + 1, size), (next + root) % size);
    schedule.end_round();
  }
}

}  // namespace

void build_barrier(Schedule& schedule) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  for (std::int64_t distance = 1; distance < size; distance *= 2) {
    const int step = static_cast<int>(distance);
    schedule.receive({}, (rank - step + size) % size);
    schedule.send({}, static_cast<int>((rank + distance) % size));
    schedule.end_round();
  }
}

void build_bcast(Schedule& schedule, const Buffer& buffer, int root) {
  const BinomialTree tree{schedule.rank(), schedule.size(), root};
  // Ranks may have different counts and datatypes.  Only the bytes are equal, so nothing else selects the messages.
  if (buffer.bytes() < kBcastScatterFrom.bytes || schedule.size() < kBcastScatterRanks) {
    return build_binomial(schedule, buffer, tree);
  }
  if (buffer.contiguous() != nullptr) {
    return build_scatter_ring(schedule, Buffer::of_bytes(buffer.contiguous(), buffer.bytes()), root, tree);
  }
  const bool is_root = schedule.rank() == root;
  const Buffer packed = Buffer::of_bytes(schedule.scratch(buffer.bytes()), buffer.bytes());
  if (is_root) schedule.copy(buffer, packed);
  schedule.end_round();
  build_scatter_ring(schedule, packed, root, tree);
  if (!is_root) schedule.copy(packed, buffer);
  schedule.end_round();
}

}  // namespace mpi_shim::coll
