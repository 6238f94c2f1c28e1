// SPDX-License-Identifier: Apache-2.0
// Gather, scatter, allgather and alltoall of a HostTeam: through slots on a host, as one message per pair of hosts
// between leaders (levels as in Karonis et al. 2000).  Larger blocks are left to the schedules (nullopt).

#include "mpi_shim/coll/algorithms/alltoall.hpp"
#include "mpi_shim/coll/algorithms/gather.hpp"
#include "mpi_shim/coll/host/team_steps.hpp"
#include "opal/core/copy.hpp"

namespace mpi_shim::coll {
namespace {

const Buffer& block(const Blocks& blocks, int rank) { return blocks[at(rank)]; }

/// The index of `rank` among all ranks except `owner`.
std::uint64_t among_others(int owner, int rank) { return static_cast<std::uint64_t>(rank < owner ? rank : rank - 1); }

}  // namespace

bool HostTeam::takes_blocks(std::uint64_t bytes) const noexcept {
  if (one_host()) return bytes <= longest_.message;
  // The limit must be equal in all processes.  Their slots may differ in size, but are not smaller than share_slot.
  return bytes <= config_.share_slot.bytes / hosts_.most;
}

std::byte* HostTeam::packed(std::uint64_t bytes) {
  if (packed_.size() < bytes) packed_.resize(bytes);
  return packed_.data();
}

HostTeam::Outcome HostTeam::gather(const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  const std::uint64_t bytes = own ? own->bytes() : block(blocks, root).bytes();
  if (!takes_blocks(bytes)) return std::nullopt;
  if (bytes == 0) return MPI_SUCCESS;
  const int me = comm_.rank();
  const int own_number = own_host();
  const std::vector<int> leaders = one_host() ? std::vector<int>{} : leaders_for(root);
  const int leader = one_host() ? root : leaders[at(own_number)];
  // Packed blocks.  At a leader: those of this host.  At the root: those of all other hosts, host by host.
  std::byte* const memory =
      me == leader && !one_host() ? packed(bytes * static_cast<std::uint64_t>(comm_.size())) : nullptr;
  const auto target = [&](std::size_t i) {  // where the leader puts the block of the i-th rank of this host
    return me == root ? block(blocks, hosts_.here[i]) : Buffer::of_bytes(memory + bytes * i, bytes);
  };
  for (std::uint64_t offset = 0; offset < bytes; offset += segment_.slot_bytes()) {
    const std::uint64_t size = piece(bytes, offset);
    segment_.begin(size);
    if (me != leader) {
      OPAL_MPI_STEP(segment_.claim());
      put(*own, offset, {segment_.slot(segment_.rank()), size});
      segment_.arrive();
      continue;
    }
    for (std::size_t i = 0; i < hosts_.here.size(); ++i) {
      if (hosts_.here[i] == me) continue;
      OPAL_MPI_STEP(segment_.await(static_cast<int>(i)));
      get({segment_.slot(static_cast<int>(i)), size}, target(i), offset);
    }
  }
  if (own && me == root) p2p::copy(*own, block(blocks, me));
  if (own && me == leader && me != root) put(*own, target(at(segment_.rank())).base());
  if (one_host()) return MPI_SUCCESS;
  const auto for_each_other_host = [&](auto&& use) {  // at the root: calls use(host, its packed blocks)
    std::byte* next = memory;
    for (std::size_t host = 0; host < hosts_.ranks.size(); ++host) {
      if (host == at(own_number)) continue;
      use(host, next);
      next += bytes * hosts_.ranks[host].size();
    }
  };
  OPAL_MPI_STEP(among(leaders, [&](Schedule& schedule) {
    if (me == root) {
      for_each_other_host([&](std::size_t host, std::byte* from) {
        schedule.receive(Buffer::of_bytes(from, bytes * hosts_.ranks[host].size()), static_cast<int>(host));
      });
    } else {
      schedule.send(Buffer::of_bytes(memory, bytes * hosts_.here.size()), hosts_.of_rank[at(root)]);
    }
    schedule.end_round();
  }));
  if (me != root) return MPI_SUCCESS;
  for_each_other_host([&](std::size_t host, const std::byte* from) {
    for (const int rank : hosts_.ranks[host]) {
      get(from, block(blocks, rank));
      from += bytes;
    }
  });
  return MPI_SUCCESS;
}

HostTeam::Outcome HostTeam::scatter(const std::optional<Buffer>& own, const Blocks& blocks, int root) {
  const std::uint64_t bytes = own ? own->bytes() : block(blocks, root).bytes();
  if (!takes_blocks(bytes)) return std::nullopt;
  if (bytes == 0) return MPI_SUCCESS;
  if (one_host()) {
    const bool fits = bytes <= segment_.slot_bytes() / static_cast<std::uint64_t>(segment_.size());
    return fits ? scatter_here(blocks, own, root, bytes) : scatter_pieces(blocks, own, root, bytes);
  }
  const int me = comm_.rank();
  const std::vector<int> leaders = leaders_for(root);
  const int leader = leaders[at(own_host())];
  std::byte* const memory = me == leader ? packed(bytes * static_cast<std::uint64_t>(comm_.size())) : nullptr;
  OPAL_MPI_STEP(among(leaders, [&](Schedule& schedule) {
    if (me != root) {
      schedule.receive(Buffer::of_bytes(memory, bytes * hosts_.here.size()), hosts_.of_rank[at(root)]);
    } else {
      std::byte* next = memory;
      for (std::size_t host = 0; host < hosts_.ranks.size(); ++host) {
        if (host == at(own_host())) continue;
        std::byte* const first = next;
        for (const int rank : hosts_.ranks[host]) {
          put(block(blocks, rank), next);
          next += bytes;
        }
        schedule.send(Buffer::of_bytes(first, bytes * hosts_.ranks[host].size()), static_cast<int>(host));
      }
    }
    schedule.end_round();
  }));
  if (me == root || me != leader) return scatter_here(blocks, own, leader, bytes);
  Blocks received(at(comm_.size()));
  for (std::size_t i = 0; i < hosts_.here.size(); ++i) {
    received[at(hosts_.here[i])] = Buffer::of_bytes(memory + bytes * i, bytes);
  }
  return scatter_here(received, own, leader, bytes);
}

int HostTeam::scatter_here(const Blocks& blocks, const std::optional<Buffer>& own, int leader, std::uint64_t bytes) {
  const int from = place(leader);
  segment_.begin(bytes * static_cast<std::uint64_t>(segment_.size() - 1));
  if (comm_.rank() != leader) {
    OPAL_MPI_STEP(segment_.await(from));
    get(segment_.slot(from) + bytes * among_others(from, segment_.rank()), *own);
    return MPI_SUCCESS;
  }
  OPAL_MPI_STEP(segment_.claim());
  for (int to = 0; to < segment_.size(); ++to) {
    if (to != from) put(block(blocks, hosts_.here[at(to)]), segment_.slot(from) + bytes * among_others(from, to));
  }
  segment_.arrive();
  if (own) p2p::copy(block(blocks, leader), *own);
  return MPI_SUCCESS;
}

int HostTeam::scatter_pieces(const Blocks& blocks, const std::optional<Buffer>& own, int root, std::uint64_t bytes) {
  const int me = segment_.rank();
  for (std::uint64_t offset = 0; offset < bytes; offset += segment_.slot_bytes()) {
    const std::uint64_t size = piece(bytes, offset);
    for (int rank = 0; rank < segment_.size(); ++rank) {
      if (rank == root) continue;
      segment_.begin(size);
      if (me == root) {
        OPAL_MPI_STEP(segment_.claim());
        put(block(blocks, rank), offset, {segment_.slot(root), size});
        segment_.arrive();
      } else if (me == rank) {
        OPAL_MPI_STEP(segment_.await(root));
        get({segment_.slot(root), size}, *own, offset);
      }
    }
  }
  if (own && me == root) p2p::copy(block(blocks, root), *own);
  return MPI_SUCCESS;
}

int HostTeam::allgather_here(const std::optional<Buffer>& own, const Blocks& blocks, std::uint64_t longest) {
  const int me = segment_.rank();
  const Buffer& mine = block(blocks, me);
  for (std::uint64_t offset = 0; offset < longest; offset += segment_.slot_bytes()) {
    segment_.begin(piece(longest, offset));
    if (offset < mine.bytes()) {
      OPAL_MPI_STEP(segment_.claim());
      put(own ? *own : mine, offset, {segment_.slot(me), piece(mine.bytes(), offset)});
      segment_.arrive();
      // Copy from the slot, which is in the cache.
      if (own) get({segment_.slot(me), piece(mine.bytes(), offset)}, mine, offset);
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
  std::byte* const memory = packed(total);
  std::vector<std::byte*> places(blocks.size());  // by rank: its block in the packed memory, which is ordered by host
  Blocks of_hosts;
  bool even = true;
  std::byte* next = memory;
  for (const std::vector<int>& ranks : hosts_.ranks) {
    std::byte* const first = next;
    for (const int rank : ranks) {
      places[at(rank)] = next;
      next += block(blocks, rank).bytes();
    }
    of_hosts.push_back(Buffer::of_bytes(first, static_cast<std::uint64_t>(next - first)));
    even = even && of_hosts.back().bytes() == of_hosts.front().bytes();
  }
  const Buffer& mine = own ? *own : block(blocks, me);
  segment_.begin(longest);
  if (segment_.rank() != 0) {
    OPAL_MPI_STEP(segment_.claim());
    put(mine, segment_.slot(segment_.rank()));
    segment_.arrive();
  } else {
    put(mine, places[at(me)]);
    for (int other = 1; other < segment_.size(); ++other) {
      const int rank = hosts_.here[at(other)];
      OPAL_MPI_STEP(segment_.await(other));
      opal::copy_host_memory(places[at(rank)], segment_.slot(other), block(blocks, rank).bytes());
    }
  }
  OPAL_MPI_STEP(among(hosts_.leaders, [&](Schedule& schedule) {
    (even ? build_allgather : build_allgatherv)(schedule, std::nullopt, of_hosts);
  }));
  OPAL_MPI_STEP(bcast_here(Buffer::of_bytes(memory, total), 0));
  if (own) p2p::copy(*own, block(blocks, me));
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != me) get(places[at(rank)], block(blocks, rank));
  }
  return MPI_SUCCESS;
}

HostTeam::Outcome HostTeam::alltoall(const Blocks& out, const Blocks& in) {
  const int me = comm_.rank();
  const std::uint64_t bytes = block(in, me).bytes();
  // A slot must hold the blocks of one rank for all ranks, and later, at the leader, those of other hosts for this one.
  const std::uint64_t most = one_host() ? segment_.slot_bytes() : config_.share_slot.bytes / hosts_.most;
  const bool fits = bytes <= most / static_cast<std::uint64_t>(comm_.size());
  if (!fits && (!one_host() || bytes > longest_.alltoall)) return std::nullopt;
  if (bytes == 0) return MPI_SUCCESS;
  if (!fits) return alltoall_pieces(out, in, bytes);
  segment_.begin(bytes * static_cast<std::uint64_t>(comm_.size() - 1));
  OPAL_MPI_STEP(segment_.claim());
  std::byte* const mine = segment_.slot(segment_.rank());
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != me) put(block(out, rank), mine + bytes * among_others(me, rank));
  }
  segment_.arrive();
  if (&out != &in) p2p::copy(block(out, me), block(in, me));
  for (int step = 1; step < segment_.size(); ++step) {
    const int other = (segment_.rank() + step) % segment_.size();
    OPAL_MPI_STEP(segment_.await(other));
    const int rank = hosts_.here[at(other)];
    get(segment_.slot(other) + bytes * among_others(rank, me), block(in, rank));
  }
  return one_host() ? MPI_SUCCESS : alltoall_between(in, bytes);
}

/// Exchanges pair by pair, one slot of each rank at a time: so MPI_IN_PLACE overwrites no bytes before they are read.
int HostTeam::alltoall_pieces(const Blocks& out, const Blocks& in, std::uint64_t bytes) {
  const int me = segment_.rank();
  const int size = segment_.size();
  for (int step = 0; step < size; ++step) {
    const int partner = (step - me + size) % size;
    if (partner == me && &out != &in) p2p::copy(block(out, me), block(in, me));
    for (std::uint64_t offset = 0; offset < bytes; offset += segment_.slot_bytes()) {
      segment_.begin(piece(bytes, offset));
      if (partner == me) continue;
      OPAL_MPI_STEP(segment_.claim());
      put(block(out, partner), offset, {segment_.slot(me), piece(bytes, offset)});
      segment_.arrive();
      OPAL_MPI_STEP(segment_.await(partner));
      get({segment_.slot(partner), piece(bytes, offset)}, block(in, partner), offset);
    }
  }
  return MPI_SUCCESS;
}

int HostTeam::alltoall_between(const Blocks& in, std::uint64_t bytes) {
  const std::uint64_t here = hosts_.here.size();
  const std::uint64_t elsewhere = static_cast<std::uint64_t>(comm_.size()) - here;
  std::byte* received = nullptr;
  if (segment_.rank() == 0) {
    std::byte* next = packed(2 * here * elsewhere * bytes);
    received = next + here * elsewhere * bytes;
    std::byte* next_received = received;
    Blocks sends;
    Blocks receives;
    for (std::size_t host = 0; host < hosts_.ranks.size(); ++host) {
      const bool is_ours = host == at(own_host());
      const std::uint64_t size = is_ours ? 0 : here * hosts_.ranks[host].size() * bytes;
      sends.push_back(Buffer::of_bytes(next, size));
      receives.push_back(Buffer::of_bytes(next_received, size));
      next_received += size;
      if (is_ours) continue;
      for (std::size_t from = 0; from < here; ++from) {  // filled: alltoall() awaited all ranks
        for (const int to : hosts_.ranks[host]) {
          opal::copy_host_memory(
              next, segment_.slot(static_cast<int>(from)) + bytes * among_others(hosts_.here[from], to), bytes);
          next += bytes;
        }
      }
    }
    OPAL_MPI_STEP(among(hosts_.leaders, [&](Schedule& schedule) { build_alltoall(schedule, sends, receives); }));
  } else {
    OPAL_MPI_STEP(among(hosts_.leaders, [](Schedule&) {}));
  }
  // `received` has, for each rank of other hosts, one block for each rank of this host.
  segment_.begin(config_.share_slot.bytes);
  if (segment_.rank() == 0) {
    OPAL_MPI_STEP(segment_.claim());
    opal::copy_host_memory(segment_.slot(0), received, here * elsewhere * bytes);
    segment_.arrive();
  } else {
    OPAL_MPI_STEP(segment_.await(0));
  }
  const std::byte* from = segment_.slot(0) + bytes * static_cast<std::uint64_t>(segment_.rank());
  for (std::size_t host = 0; host < hosts_.ranks.size(); ++host) {
    if (host == at(own_host())) continue;
    for (const int rank : hosts_.ranks[host]) {
      get(from, block(in, rank));
      from += here * bytes;
    }
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::coll
