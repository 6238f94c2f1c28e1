// SPDX-License-Identifier: Apache-2.0
// Gather, scatter, allgather and alltoall of a HostTeam: through slots on a host; between hosts one message per pair of
// leaders (levels as in Karonis et al. 2000), and alltoall as alltoallv.  Larger blocks are left to the schedules
// (nullopt).
#include <algorithm>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/host/team_steps.hpp"

namespace mpi_shim::coll {
namespace {

const Buffer& block(const Blocks& blocks, int rank) { return blocks[at(rank)]; }

/// The index of `rank` among all ranks except `owner`.
std::uint64_t among_others(int owner, int rank) { return static_cast<std::uint64_t>(rank < owner ? rank : rank - 1); }

/// The error class of a sender whose blocks have more than the `bytes` that it expects of others.  It sends the first
/// `bytes` of each, since the offsets in a slot are computed from `bytes`.
int check_length(const Buffer& sent, std::uint64_t bytes) {
  return sent.bytes() <= bytes ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

}  // namespace

bool HostTeam::takes_blocks(std::uint64_t bytes) const noexcept {
  if (one_host()) return bytes <= longest_.block;
  // The limit must be equal in all processes.  Their slots may differ in size, but are not smaller than share_slot.
  return bytes <= config_.share_slot.bytes / hosts_.most;
}

std::byte* HostTeam::packed(std::uint64_t bytes) {
  if (packed_.size() < bytes) packed_.resize(bytes);
  return packed_.data();
}

/// The blocks of the ranks of a host, or of all, in packed() memory, whose content is undefined: sizes[r] bytes for
/// rank r.  Other ranks' blocks are empty.
HostTeam::ByHost HostTeam::by_host(const std::vector<std::uint64_t>& sizes, bool only_here) {
  ByHost all{Blocks(hosts_.ranks.size()), Blocks(sizes.size())};
  const std::size_t first_host = only_here ? at(own_host()) : 0;
  const std::size_t last_host = only_here ? first_host + 1 : hosts_.ranks.size();
  std::uint64_t total = 0;
  for (std::size_t host = first_host; host < last_host; ++host) {
    for (const int rank : hosts_.ranks[host]) total += sizes[at(rank)];
  }
  std::byte* next = packed(total);
  for (std::size_t host = first_host; host < last_host; ++host) {
    std::byte* const first = next;
    for (const int rank : hosts_.ranks[host]) {
      all.ranks[at(rank)] = Buffer::of_bytes(next, sizes[at(rank)]);
      next += sizes[at(rank)];
    }
    all.hosts[host] = Buffer::of_bytes(first, static_cast<std::uint64_t>(next - first));
  }
  return all;
}

HostTeam::Outcome HostTeam::rooted(Rooted kind, const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  if (kind.sizes == Rooted::Sizes::any) return rooted_uneven(kind.gathers(), own, blocks, root);
  const std::uint64_t bytes = own ? own->bytes() : block(blocks, root).bytes();
  if (!takes_blocks(bytes)) return std::nullopt;
  const bool gathers = kind.gathers();
  const bool is_root = comm_.rank() == root;
  const int length = is_root && !gathers ? check_length(block(blocks, root), bytes) : MPI_SUCCESS;
  if (bytes == 0) return length;
  const auto here = [&](const Blocks& of_ranks, int leader) {
    return gathers ? gather_here(own, of_ranks, leader, bytes) : scatter_here(of_ranks, own, leader, bytes);
  };
  if (one_host()) return first_error(here(blocks, root), length);
  const std::vector<int> leaders = leaders_for(root);
  const int leader = leaders[at(own_host())];
  const ByHost all = comm_.rank() == leader ? by_host(std::vector(at(comm_.size()), bytes), !is_root) : ByHost{};
  const Blocks& of_ranks = is_root ? blocks : all.ranks;
  const auto copy_other_hosts = [&] {
    for (int rank = 0; is_root && rank < comm_.size(); ++rank) {
      if (hosts_.of_rank[at(rank)] == own_host()) continue;
      gathers ? p2p::copy(block(all.ranks, rank), block(blocks, rank))
              : p2p::copy(block(blocks, rank), block(all.ranks, rank));
    }
  };
  if (gathers) {
    OPAL_MPI_STEP(here(of_ranks, leader));
  } else {
    copy_other_hosts();
  }
  OPAL_MPI_STEP(among(leaders, [&](Schedule& schedule) {
    const auto packed = is_root ? std::nullopt : std::optional{all.hosts[at(own_host())]};
    build_rooted(schedule, {kind.way, Rooted::Sizes::any}, packed, all.hosts, hosts_.of_rank[at(root)]);
  }));
  if (!gathers) return first_error(here(of_ranks, leader), length);
  copy_other_hosts();
  return MPI_SUCCESS;
}

int HostTeam::gather_here(const std::optional<Buffer>& own, const Blocks& blocks, int leader, std::uint64_t longest) {
  for (std::uint64_t offset = 0; offset < longest; offset += segment_.slot_bytes()) {
    const std::uint64_t size = piece(longest, offset);
    segment_.begin(size);
    if (comm_.rank() != leader) {
      OPAL_MPI_STEP(segment_.fill([&](std::byte* slot) { put(*own, offset, {slot, size}); }));
      continue;
    }
    for (int from = 0; from < segment_.size(); ++from) {
      if (from == segment_.rank()) continue;
      OPAL_MPI_STEP(segment_.await(from));
      get({segment_.slot(from), size}, block(blocks, hosts_.here[at(from)]), offset);
    }
  }
  if (own && comm_.rank() == leader) p2p::copy(*own, block(blocks, leader));
  return MPI_SUCCESS;
}

int HostTeam::scatter_here(const Blocks& blocks, const std::optional<Buffer>& own, int leader, std::uint64_t bytes) {
  const int from = place(leader);
  const auto others = static_cast<std::uint64_t>(std::max(segment_.size() - 1, 1));
  const std::uint64_t most = segment_.slot_bytes() / others;
  for (std::uint64_t offset = 0; offset < bytes; offset += most) {
    const std::uint64_t size = std::min(bytes - offset, most);
    OPAL_MPI_STEP(segment_.fill_by(from, size * others, [&](std::byte* slot) {
      for (int to = 0; to < segment_.size(); ++to) {
        if (to == from) continue;
        put(block(blocks, hosts_.here[at(to)]), offset, {slot + size * among_others(from, to), size});
      }
    }));
    if (comm_.rank() == leader) continue;
    get({segment_.slot(from) + size * among_others(from, segment_.rank()), size}, *own, offset);
  }
  if (own && comm_.rank() == leader) p2p::copy(block(blocks, leader), *own);
  return MPI_SUCCESS;
}

int HostTeam::allgather_here(const std::optional<Buffer>& own, const Blocks& blocks, std::uint64_t longest) {
  const int me = segment_.rank();
  const Buffer& mine = block(blocks, me);
  for (std::uint64_t offset = 0; offset < longest; offset += segment_.slot_bytes()) {
    segment_.begin(piece(longest, offset));
    if (offset < mine.bytes()) {
      const std::uint64_t size = piece(mine.bytes(), offset);
      OPAL_MPI_STEP(segment_.fill([&](std::byte* slot) { put(own ? *own : mine, offset, {slot, size}); }));
      if (own) get({segment_.slot(me), size}, mine, offset);  // copy from the slot, which is in the cache
    }
    for (int rank = (me + 1) % segment_.size(); rank != me; rank = (rank + 1) % segment_.size()) {
      const Buffer& theirs = block(blocks, rank);
      if (offset >= theirs.bytes()) continue;
      OPAL_MPI_STEP(segment_.await(rank));
      get({segment_.slot(rank), piece(theirs.bytes(), offset)}, theirs, offset);
    }
  }
  return MPI_SUCCESS;
}

HostTeam::Outcome HostTeam::allgather(const std::optional<Buffer>& own, const Blocks& blocks) {
  // Every rank knows all sizes, so all ranks decide alike.
  std::uint64_t total = 0;
  std::uint64_t longest = 0;
  for (const Buffer& one : blocks) {
    if (!takes_blocks(one.bytes())) return std::nullopt;
    total += one.bytes();
    longest = std::max(longest, one.bytes());
  }
  if (total == 0) return MPI_SUCCESS;
  if (one_host()) return allgather_here(own, blocks, longest);
  if (total > kShareBelow.bytes) return std::nullopt;
  const int me = comm_.rank();
  std::vector<std::uint64_t> sizes;
  for (const Buffer& one : blocks) sizes.push_back(one.bytes());
  const ByHost all = by_host(sizes, false);
  const bool even = std::all_of(all.hosts.begin(), all.hosts.end(),
                                [&](const Buffer& host) { return host.bytes() == all.hosts.front().bytes(); });
  OPAL_MPI_STEP(gather_here(own ? own : std::optional{block(blocks, me)}, all.ranks, hosts_.here.front(), longest));
  OPAL_MPI_STEP(among(hosts_.leaders, [&](Schedule& schedule) {
    (even ? build_allgather : build_allgatherv)(schedule, std::nullopt, all.hosts);
  }));
  OPAL_MPI_STEP(bcast_here(Buffer::of_bytes(all.hosts.front().base(), total), 0));
  if (own) p2p::copy(*own, block(blocks, me));
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != me) p2p::copy(block(all.ranks, rank), block(blocks, rank));
  }
  return MPI_SUCCESS;
}

HostTeam::Outcome HostTeam::alltoall(const Blocks& out, const Blocks& in) {
  if (!one_host()) return alltoallv(out, in);
  const int me = comm_.rank();
  const std::uint64_t bytes = block(in, me).bytes();
  const auto others = static_cast<std::uint64_t>(comm_.size() - 1);
  const std::uint64_t most = segment_.slot_bytes() / others;
  if (bytes > std::max(most, longest_.alltoall)) return std::nullopt;
  const int length = check_length(block(out, me), bytes);
  // MPI_IN_PLACE: an exchange overwrites only bytes that its slots hold.
  for (std::uint64_t offset = 0; offset < bytes; offset += most) {
    const std::uint64_t size = std::min(bytes - offset, most);
    segment_.begin(size * others);
    OPAL_MPI_STEP(segment_.fill([&](std::byte* slot) {
      for (int rank = 0; rank < comm_.size(); ++rank) {
        if (rank != me) put(block(out, rank), offset, {slot + size * among_others(me, rank), size});
      }
    }));
    if (offset == 0 && &out != &in) p2p::copy(block(out, me), block(in, me));
    for (int step = 1; step < comm_.size(); ++step) {
      const int other = (me + step) % comm_.size();
      OPAL_MPI_STEP(segment_.await(other));
      get({segment_.slot(other) + size * among_others(other, me), size}, block(in, other), offset);
    }
  }
  return length;
}

}  // namespace mpi_shim::coll
