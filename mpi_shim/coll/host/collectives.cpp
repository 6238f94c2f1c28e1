// SPDX-License-Identifier: Apache-2.0
// Barrier, broadcast, reduce and allreduce of a HostTeam.
#include <algorithm>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/host/team_steps.hpp"
#include "mpi_shim/coll/on_host.hpp"
#include "opal/core/copy.hpp"

namespace mpi_shim::coll {
namespace {

constexpr int kAllRanks = -1;

}  // namespace

HostTeam::Outcome HostTeam::barrier() {
  segment_.begin(0);
  OPAL_MPI_STEP(segment_.claim());
  segment_.arrive();
  if (one_host()) return segment_.await_all();
  if (segment_.rank() == 0) OPAL_MPI_STEP(segment_.await_all());
  OPAL_MPI_STEP(among(hosts_.leaders, [](Schedule& schedule) { build_barrier(schedule); }));
  return segment_.fill_by(0, 0, [](std::byte* /*slot*/) {});
}

HostTeam::Outcome HostTeam::bcast(const Buffer& buffer, int root) {
  if (buffer.bytes() > (comm_.size() == 2 ? longest_.block : longest_.message)) return std::nullopt;
  if (one_host()) return bcast_here(buffer, root);
  const std::vector<int> leaders = leaders_for(root);
  const int roots_host = hosts_.of_rank[static_cast<std::size_t>(root)];
  OPAL_MPI_STEP(among(leaders, [&](Schedule& schedule) { build_bcast(schedule, buffer, roots_host); }));
  return bcast_here(buffer, place(leaders[static_cast<std::size_t>(own_host())]));
}

int HostTeam::bcast_here(const Buffer& buffer, int from) {
  for (std::uint64_t offset = 0; offset < buffer.bytes(); offset += segment_.slot_bytes()) {
    const std::uint64_t bytes = piece(buffer.bytes(), offset);
    OPAL_MPI_STEP(segment_.fill_by(from, bytes, [&](std::byte* slot) { put(buffer, offset, {slot, bytes}); }));
    if (segment_.rank() != from) get({segment_.slot(from), bytes}, buffer, offset);
  }
  return MPI_SUCCESS;
}

bool HostTeam::takes(const Buffer& in, const op::Op& op) const noexcept {
  return in.bytes() <= longest_.message && (op.is_commutative() || hosts_.in_order) &&
         (in.bytes() == 0 || (!in.has_derived_type() && in.type().size() == in.type().extent()));
}

HostTeam::Outcome HostTeam::reduce(const Buffer& from, const Buffer& to, const op::Op& op, int root) {
  if (!takes(from, op)) return std::nullopt;
  const OnHost in_here{from, OnHost::Use::read};
  const OnHost out_here{to, OnHost::Use::write};
  const Buffer& in = in_here.buffer();
  const Buffer& out = out_here.buffer();
  if (one_host()) return reduce_here(in, out.base(), op, root);
  const std::vector<int> leaders = leaders_for(root);
  const int leader = leaders[static_cast<std::size_t>(own_host())];
  std::unique_ptr<std::byte[]> memory;
  Buffer result = out;
  if (comm_.rank() == leader && leader != root) {
    memory = std::make_unique_for_overwrite<std::byte[]>(in.bytes());
    result = in.at(memory.get());
  }
  OPAL_MPI_STEP(reduce_here(in, result.base(), op, place(leader)));
  return among(leaders, [&](Schedule& schedule) {
    build_reduce(schedule, result, out, op, hosts_.of_rank[static_cast<std::size_t>(root)]);
  });
}

HostTeam::Outcome HostTeam::allreduce(const Buffer& from, const Buffer& to, const op::Op& op) {
  if (!takes(from, op)) return std::nullopt;
  const OnHost in_here{from, OnHost::Use::read};
  const OnHost out_here{to, OnHost::Use::write};
  const Buffer& in = in_here.buffer();
  const Buffer& out = out_here.buffer();
  if (one_host()) return reduce_here(in, out.base(), op, kAllRanks);
  OPAL_MPI_STEP(reduce_here(in, out.base(), op, 0));
  OPAL_MPI_STEP(among(hosts_.leaders, [&](Schedule& schedule) { build_allreduce(schedule, out, out, op); }));
  return bcast_here(out, 0);
}

int HostTeam::reduce_here(const Buffer& in, std::byte* out, const op::Op& op, int to) {
  if (in.bytes() == 0) return MPI_SUCCESS;
  const auto element = static_cast<std::uint64_t>(in.type().size());
  const std::uint64_t most = segment_.slot_bytes() / element;
  const bool gets = to == kAllRanks || to == segment_.rank();
  for (std::uint64_t first = 0; first < in.count(); first += most) {
    const Buffer piece = in.part(first, std::min(most, in.count() - first));
    OPAL_MPI_STEP(reduce_piece(piece, gets ? out + first * element : nullptr, op, to));
  }
  return MPI_SUCCESS;
}

/// All ranks fill their slots, except a single receiver `to` without parts.
/// Without parts each receiver reduces the whole piece.  With parts each rank reduces one part and writes the result
/// into that part of its slot, which no other rank reads before the second arrive().
int HostTeam::reduce_piece(const Buffer& in, std::byte* out, const op::Op& op, int to) {
  const int rank = segment_.rank();
  const int size = segment_.size();
  const bool in_parts = makes_parts(in, to);
  segment_.begin(in.bytes());
  if (in_parts || to != rank) {
    OPAL_MPI_STEP(segment_.fill([&](std::byte* slot) { opal::copy_host_memory(slot, in.base(), in.bytes()); }));
  }
  if (!in_parts) {
    if (out == nullptr) return MPI_SUCCESS;
    OPAL_MPI_STEP(segment_.await_all());
    combine(in, 0, out, op);
    return MPI_SUCCESS;
  }
  OPAL_MPI_STEP(segment_.await_all());
  const auto element = static_cast<std::uint64_t>(in.type().size());
  const auto cut = [&](int part) {
    return in.count() * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(size);
  };
  const Buffer own = in.part(cut(rank), cut(rank + 1) - cut(rank));
  const std::uint64_t offset = cut(rank) * element;
  std::byte* const made = out == nullptr ? part_.data() : out + offset;
  combine(own, offset, made, op);
  segment_.refill();
  if (to != rank) opal::copy_host_memory(segment_.slot(rank) + offset, made, own.bytes());
  segment_.arrive();
  if (out == nullptr) return MPI_SUCCESS;
  for (int other = (rank + 1) % size; other != rank; other = (other + 1) % size) {
    OPAL_MPI_STEP(segment_.await(other));
    opal::copy_host_memory(out + cut(other) * element, segment_.slot(other) + cut(other) * element,
                           (cut(other + 1) - cut(other)) * element);
  }
  return MPI_SUCCESS;
}

/// Parts divide the work, but all ranks synchronise twice.  For a single receiver this pays off only with more than 4
/// ranks that do not share cores.
bool HostTeam::makes_parts(const Buffer& piece, int to) const noexcept {
  if (piece.bytes() < kShareSplitFrom.bytes) return false;
  return to == kAllRanks || (segment_.size() > 4 && !segment_.core_is_shared());
}

/// out = e0 op e1 op ..., where ei are the elements of rank i: `own` of this rank, those at byte `offset` of the slots
/// of the others.
void HostTeam::combine(const Buffer& own, std::uint64_t offset, std::byte* out, const op::Op& op) {
  if (own.count() == 0) return;
  const int last = segment_.size() - 1;
  const std::byte* mine = own.base();
  if (mine == out && segment_.rank() != last) {  // in place: copy the elements before they are overwritten
    opal::copy_host_memory(part_.data(), mine, own.bytes());
    mine = part_.data();
  }
  const auto elements_of = [&](int rank) { return rank == segment_.rank() ? mine : segment_.slot(rank) + offset; };
  if (elements_of(last) != out) opal::copy_host_memory(out, elements_of(last), own.bytes());
  for (int rank = last - 1; rank >= 0; --rank) {
    op.apply(elements_of(rank), out, static_cast<std::int64_t>(own.count()), own.type());
  }
}

}  // namespace mpi_shim::coll
