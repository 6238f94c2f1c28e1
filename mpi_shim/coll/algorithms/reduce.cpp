// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/algorithms.hpp"

#include <vector>

#include "mpi_shim/coll/algorithms/tree.hpp"

namespace mpi_shim::coll {
namespace {

/// Bytes.  For messages of at least this size a process receives the partial results of its children one after the
/// other, to limit its scratch memory.  For smaller messages it posts all receives at once, with a scratch buffer each.
constexpr std::uint64_t kOneByOneFrom = 256 << 10;

void copy_unless_same(Schedule& schedule, const Buffer& from, const Buffer& to) {
  if (from.base() != to.base()) schedule.copy(from, to);
}

}  // namespace

void build_reduce(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op, int root) {
  const bool commutes = op.is_commutative();
  const int top = commutes ? root : 0;
  const bool is_root = schedule.rank() == root;
  const BinomialTree tree{schedule.rank(), schedule.size(), top};

  Buffer partial = in;
  if (tree.children().empty()) {
    if (is_root) copy_unless_same(schedule, in, out);
  } else {
    // children() is in descending order of position; the loops below go upwards.  If the operation does not commute,
    // the tree's root is rank 0, so a position is a rank and the results are combined in the order of ranks.
    const auto& children = tree.children();
    const bool one_by_one = in.bytes() >= kOneByOneFrom;
    if (commutes) {
      partial = is_root ? out : schedule.scratch_like(in);
      copy_unless_same(schedule, in, partial);
    }
    std::vector<Buffer> arrived;
    const auto combine = [&](const Buffer& theirs) {
      if (commutes) return schedule.reduce(theirs.base(), partial, op);
      schedule.reduce(partial.base(), theirs, op);  // theirs = partial op theirs
      partial = theirs;
    };
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      // One by one, a commuting operation needs one buffer.  Without commutativity `partial` stays in the buffer of the
      // previous child, so the children use two buffers in turn.
      const std::size_t rooms = !one_by_one ? children.size() : commutes ? 1 : 2;
      const std::size_t room = static_cast<std::size_t>(child - children.rbegin()) % rooms;
      if (room == arrived.size()) arrived.push_back(schedule.scratch_like(in));
      schedule.receive(arrived[room], child->rank);
      if (!one_by_one) continue;
      combine(arrived[room]);
      schedule.end_round();
    }
    if (!one_by_one) {
      for (const Buffer& theirs : arrived) combine(theirs);
    }
    if (!commutes && is_root && top == root) schedule.copy(partial, out);
  }
  schedule.end_round();
  if (tree.parent() >= 0) schedule.send(partial, tree.parent());
  schedule.end_round();
  if (top != root) {
    if (schedule.rank() == top) schedule.send(partial, root);
    if (is_root) schedule.receive(out, top);
  }
  schedule.end_round();
}

void build_scan(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op, bool exclusive) {
  const int rank = schedule.rank();
  const int size = schedule.size();
  // Before the step `bit`, the ranks form blocks of `bit` neighbours.  `partial` is the reduction over this rank's
  // block, `out` the reduction over the ranks of the block up to this one (exclusive: below this one).
  // If `size` is no power of two, `partial` may lack ranks of the last block.  Only lower ranks receive such a
  // `partial`, and they do not use it for `out`.
  Buffer partial = schedule.scratch_like(in);
  schedule.copy(in, partial);
  if (!exclusive) copy_unless_same(schedule, in, out);
  schedule.end_round();
  bool out_is_set = !exclusive;
  for (int bit = 1; bit < size; bit <<= 1) {
    const int other = rank ^ bit;
    if (other >= size) continue;
    const Buffer theirs = schedule.scratch_like(in);
    schedule.send(partial, other);
    schedule.receive(theirs, other);
    if (other < rank) {
      schedule.reduce(theirs.base(), partial, op);
      if (out_is_set) {
        schedule.reduce(theirs.base(), out, op);
      } else {
        schedule.copy(theirs, out);
        out_is_set = true;
      }
      schedule.end_round();
    } else {
      schedule.reduce(partial.base(), theirs, op);
      schedule.end_round();
      partial = theirs;
    }
  }
}

void build_reduce_scatter(Schedule& schedule, const Buffer& in, const Buffer& out,
                          std::span<const std::uint64_t> counts, const op::Op& op) {
  const int rank = schedule.rank();
  const int size = schedule.size();
  std::vector<std::uint64_t> first(counts.size() + 1, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) first[i + 1] = first[i] + counts[i];
  const auto part = [&](int of) {
    const auto index = static_cast<std::size_t>(of);
    return in.part(first[index], counts[index]);
  };
  const Buffer own = part(rank);

  if (op.is_commutative()) {
    // With MPI_IN_PLACE `out` overlaps parts that are still to be sent, so the sum is built in scratch memory.
    const Buffer sum = schedule.scratch_like(own);
    const Buffer theirs = schedule.scratch_like(own);
    schedule.copy(own, sum);
    for (int step = 1; step < size; ++step) {
      const int to = (rank + step) % size;
      const int from = (rank - step + size) % size;
      schedule.receive(theirs, from);
      schedule.send(part(to), to);
      schedule.reduce(theirs.base(), sum, op);
      schedule.end_round();
    }
    schedule.copy(sum, out);
    schedule.end_round();
    return;
  }

  // The operation does not commute: receive this part from all ranks first, then reduce in the order of ranks.
  std::vector<Buffer> parts;
  for (int other = 0; other < size; ++other) {
    parts.push_back(schedule.scratch_like(own));
    if (other == rank) {
      schedule.copy(own, parts.back());
    } else {
      schedule.receive(parts.back(), other);
      schedule.send(part(other), other);
    }
  }
  for (std::size_t other = 1; other < parts.size(); ++other) {
    schedule.reduce(parts[other - 1].base(), parts[other], op);
  }
  schedule.copy(parts.back(), out);
  schedule.end_round();
}

}  // namespace mpi_shim::coll
