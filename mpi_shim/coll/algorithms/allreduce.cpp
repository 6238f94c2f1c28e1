// SPDX-License-Identifier: Apache-2.0
// MPI_Allreduce: recursive doubling and the ring.
#include <utility>

#include "mpi_shim/coll/algorithms/algorithms.hpp"

namespace mpi_shim::coll {
namespace {

/// In each round a rank exchanges `partial` with the rank whose place differs in one bit.  `partial` is the reduction
/// over a block of consecutive ranks; the lower block is always the left operand, as non-commuting operations require.
void build_recursive_doubling(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op) {
  const int rank = schedule.rank();
  const int size = schedule.size();
  int power = 1;
  while (power * 2 <= size) power *= 2;
  const int extra = size - power;  // the first 2 * extra ranks form pairs; the odd rank acts for both

  // A reduction writes its right operand.  If that is `theirs`, the two buffers swap roles.
  Buffer partial = out;
  Buffer theirs = schedule.scratch_like(in);
  if (in.base() != out.base()) schedule.copy(in, out);
  schedule.end_round();

  if (rank < 2 * extra && rank % 2 == 0) {
    schedule.send(partial, rank + 1);
    schedule.end_round();
    schedule.receive(out, rank + 1);
    schedule.end_round();
    return;
  }
  if (rank < 2 * extra) {
    schedule.receive(theirs, rank - 1);
    schedule.reduce(theirs.base(), partial, op);
    schedule.end_round();
  }
  const int place = rank < 2 * extra ? rank / 2 : rank - extra;
  for (int bit = 1; bit < power; bit <<= 1) {
    const int other_place = place ^ bit;
    const int other = other_place < extra ? 2 * other_place + 1 : other_place + extra;
    schedule.receive(theirs, other);
    schedule.send(partial, other);
    if (other_place < place) {
      schedule.reduce(theirs.base(), partial, op);
    } else {
      schedule.reduce(partial.base(), theirs, op);
      std::swap(partial, theirs);
    }
    schedule.end_round();
  }
  if (partial.base() != out.base()) schedule.copy(partial, out);
  if (rank < 2 * extra) schedule.send(partial, rank - 1);
  schedule.end_round();
}

/// Reduce-scatter around a ring, then allgather around it.  Every rank sends 2 (n-1)/n of the bytes of the message.
void build_ring(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op) {
  const int rank = schedule.rank();
  const int size = schedule.size();
  const auto first = [&](int part) {
    return out.count() * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(size);
  };
  const auto part = [&](int index) {
    const int place = (index % size + size) % size;
    return out.part(first(place), first(place + 1) - first(place));
  };
  const int next = (rank + 1) % size;
  const int previous = (rank - 1 + size) % size;
  if (in.base() != out.base()) schedule.copy(in, out);
  schedule.end_round();
  const Buffer theirs = schedule.scratch_like(out.part(0, out.count() / static_cast<std::uint64_t>(size) + 1));
  for (int step = 0; step < size - 1; ++step) {
    const Buffer target = part(rank - step - 1);
    const Buffer arriving = target.at(theirs.base());
    schedule.receive(arriving, previous);
    schedule.send(part(rank - step), next);
    schedule.reduce(arriving.base(), target, op);
    schedule.end_round();
  }
  for (int step = 0; step < size - 1; ++step) {
    schedule.receive(part(rank - step), previous);
    schedule.send(part(rank + 1 - step), next);
    schedule.end_round();
  }
}

}  // namespace

void build_allreduce(Schedule& schedule, const Buffer& in, const Buffer& out, const op::Op& op) {
  const bool large =
      in.bytes() >= kAllreduceRingFrom.bytes && in.count() >= static_cast<std::uint64_t>(schedule.size());
  if (large && op.is_commutative() && schedule.size() > 2) {
    build_ring(schedule, in, out, op);
  } else {
    build_recursive_doubling(schedule, in, out, op);
  }
}

}  // namespace mpi_shim::coll
