// SPDX-License-Identifier: Apache-2.0
// Creation of the host team of a communicator.
#include "mpi_shim/coll/host/team.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "mpi_shim/coll/algorithms/exchange.hpp"
#include "mpi_shim/coll/host/shared_memory.hpp"
#include "mpi_shim/job/job.hpp"
#include "opal/am/config.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"
#include "opal/gpu/gpu.hpp"

namespace mpi_shim::coll {
namespace {

constexpr std::uint64_t kPiecesOnSharedCores = 4;  // factor of mpi_coll_share_slot if ranks share cores

/// The ranks of `comm` that share a segment with this process: of its host, in groups of at most `most` ranks.
std::vector<int> group_here(Job& job, const comm::Communicator& comm, std::uint32_t most) {
  const std::vector<int> local = ranks_here(job, comm);
  const auto own = std::lower_bound(local.begin(), local.end(), comm.rank()) - local.begin();
  const auto first = local.begin() + own / most * most;
  return {first, first + std::min<std::ptrdiff_t>(most, local.end() - first)};
}

/// The data that each rank sends to all others; an exchange() record.
struct Introduction {
  std::int64_t leader;  // the leader of its host
  Longest longest;      // its limits; the minimum over all ranks is used
  std::int64_t fences;  // 1: it accepts remote fences (TeamSegment::Manner::fences_paid)
  std::int64_t ready;   // 1: it has the segment of its host and is connected to all ranks of its host
};

Hosts hosts_of(std::vector<int> here, const std::vector<Introduction>& all) {
  std::map<std::int64_t, std::vector<int>> by_leader;
  for (std::size_t rank = 0; rank < all.size(); ++rank) by_leader[all[rank].leader].push_back(static_cast<int>(rank));
  Hosts hosts;
  hosts.here = std::move(here);
  hosts.of_rank.resize(all.size());
  for (auto& [leader, ranks] : by_leader) {
    for (const int rank : ranks) hosts.of_rank[static_cast<std::size_t>(rank)] = static_cast<int>(hosts.leaders.size());
    hosts.most = std::max(hosts.most, ranks.size());
    hosts.leaders.push_back(static_cast<int>(leader));
    hosts.ranks.push_back(std::move(ranks));
  }
  hosts.in_order = std::is_sorted(hosts.of_rank.begin(), hosts.of_rank.end());
  return hosts;
}

}  // namespace

HostTeam::HostTeam(comm::Communicator& comm, Hosts hosts, TeamSegment segment, Longest longest)
    : comm_(comm),
      hosts_(std::move(hosts)),
      segment_(std::move(segment)),
      config_(comm.vci().scheduler().config()),
      longest_(longest),
      part_(segment_.slot_bytes()) {}

std::unique_ptr<HostTeam> HostTeam::make(Job& job, comm::Communicator& comm) {
  const Config& config = comm.vci().scheduler().config();
  std::vector<int> here = group_here(job, comm, config.share_ranks);
  // Ranks that share cores lose more by an additional exchange than by larger pieces.
  const bool cores_shared = job.waits().ranks_per_core > 1;
  const std::uint64_t pieces = cores_shared ? kPiecesOnSharedCores : 1;
  const std::uint64_t slot = align_up(config.share_slot.bytes * pieces, 64);
  const std::uint64_t size = TeamSegment::bytes_for(static_cast<int>(here.size()), slot, cores_shared);

  HostMemory memory;
  if (share_memory(comm, here.front(), size, "collectives", memory) != MPI_SUCCESS) return nullptr;
  std::vector<p2p::Peer*> peers;
  bool ready{memory};
  for (const int rank : here) {
    p2p::Peer& peer = comm.peer(rank);
    const am::Lock::Guard guard{comm.engine().lock()};
    // TeamSegment needs a connection to wake the peer and to detect its failure.
    ready = ready && (rank == comm.rank() || comm.engine().reach(peer) == MPI_SUCCESS);
    peers.push_back(&peer);
  }
  Longest longest{};
  longest.message = (opal::gpu::active() ? kShareGpuBelow : kShareBelow).bytes;
  longest.block = std::min(longest.message, cores_shared ? UINT64_MAX : kShareBlockBelow.bytes);
  longest.alltoall = std::min(longest.block, kShareAlltoallBelow.bytes);
  std::vector<Introduction> all(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = {here.front(), longest,
                                                !cores_shared && opal::accept_remote_fences() ? 1 : 0, ready ? 1 : 0};
  if (exchange(comm, all) != MPI_SUCCESS) return nullptr;
  for (const Introduction& one : all) {
    if (one.ready == 0) return nullptr;
    longest.message = std::min(longest.message, one.longest.message);
    longest.block = std::min(longest.block, one.longest.block);
    longest.alltoall = std::min(longest.alltoall, one.longest.alltoall);
  }
  Hosts hosts = hosts_of(std::move(here), all);
  if (hosts.leaders.size() == all.size()) return nullptr;
  const auto own = std::find(hosts.here.begin(), hosts.here.end(), comm.rank()) - hosts.here.begin();
  const am::Config& waits = job.waits();
  const bool fences_paid = std::all_of(hosts.here.begin(), hosts.here.end(),
                                       [&](int rank) { return all[static_cast<std::size_t>(rank)].fences == 1; });
  TeamSegment segment{std::move(memory),
                      slot,
                      static_cast<int>(own),
                      std::move(peers),
                      comm.collective(),
                      comm.engine(),
                      {waits.spin, cores_shared, fences_paid}};
  return std::unique_ptr<HostTeam>{new HostTeam{comm, std::move(hosts), std::move(segment), longest}};
}

int HostTeam::place(int rank) const noexcept {
  if (one_host()) return rank;
  return static_cast<int>(std::lower_bound(hosts_.here.begin(), hosts_.here.end(), rank) - hosts_.here.begin());
}

std::vector<int> HostTeam::leaders_for(int root) const {
  std::vector<int> leaders = hosts_.leaders;
  leaders[static_cast<std::size_t>(hosts_.of_rank[static_cast<std::size_t>(root)])] = root;
  return leaders;
}

HostTeam* HostTeam::for_collective(Job& job, comm::Communicator& comm) {
  if (comm.host_team != nullptr) [[likely]]
    return comm.host_team.get();
  const bool share = comm.vci().scheduler().config().share;
  if (comm.host_team_uses > kShareAfter || !share || comm.is_inter() || comm.size() == 1) return nullptr;
  if (comm.host_team_uses++ == kShareAfter) comm.host_team = make(job, comm);
  return comm.host_team.get();
}

void HostTeam::make_at_init(Job& job, comm::Communicator& world) {
  const bool one_host = job.client().local_size() == job.client().size();
  if (!one_host || world.size() == 1 || world.size() > kShareAtInitRanks) return;
  if (!world.vci().scheduler().config().share) return;
  world.host_team_uses = kShareAfter + 1;
  world.host_team = make(job, world);
}

}  // namespace mpi_shim::coll
