// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host/team.hpp — blocking collectives of a communicator in two levels: the ranks of a host use shared
// memory, one leader per host exchanges messages with the leaders of other hosts (docs/design/mpi-collectives.md).
// Owned by its communicator.  for_collective() creates it.
// Each operation returns an error class, or nullopt: it does not use shared memory, and the caller runs a Schedule.
// All processes decide alike, since they use only what the standard requires to be equal everywhere.
// Threads: one at a time, which the standard requires for the collectives of a communicator.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/coll/host/team_segment.hpp"
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim {
class Job;
}

namespace mpi_shim::coll {

/// The ranks of a communicator by host.  More than mpi_coll_share_ranks ranks of a machine count as several hosts.
struct Hosts {
  std::vector<int> leaders;             ///< the lowest rank of each host, ascending
  std::vector<int> of_rank;             ///< by rank: its host, an index into leaders and ranks
  std::vector<int> here;                ///< the ranks of this host, ascending
  std::vector<std::vector<int>> ranks;  ///< by host: its ranks, ascending
  std::size_t most = 0;                 ///< the largest number of ranks of one host
  bool in_order = true;                 ///< the ranks of each host are consecutive
};

/// The most bytes that use shared memory.
struct Longest {
  std::uint64_t message;   ///< of a message to all ranks, or of one that is reduced
  std::uint64_t block;     ///< of a block for one rank
  std::uint64_t alltoall;  ///< of one block of an alltoall
};

class HostTeam {
 public:
  using Outcome = std::optional<int>;

  /// Makes the team of MPI_COMM_WORLD if the job is small and on one host (kShareAtInitRanks), and so connects its
  /// ranks. Requires: all processes call it in MPI_Init, when the addresses of all are published.
  static void make_at_init(Job& job, comm::Communicator& world);
  /// The team of `comm`, for one blocking collective.  Null: during the first kShareAfter collectives, or the
  /// communicator cannot have a team.  One call makes the team, which is itself a collective with messages.
  /// Requires: all processes of the communicator call it, once in each blocking collective on `comm`.
  static HostTeam* for_collective(Job& job, comm::Communicator& comm);

  Outcome barrier();
  Outcome bcast(const Buffer& buffer, int root);
  Outcome reduce(const Buffer& in, const Buffer& out, const op::Op& op, int root);
  Outcome allreduce(const Buffer& in, const Buffer& out, const op::Op& op);
  Outcome scan(const Buffer& in, const Buffer& out, const op::Op& op, bool exclusive);
  /// counts[r] elements of `in` are for rank r.
  Outcome reduce_scatter(const Buffer& in, const Buffer& out, std::span<const std::uint64_t> counts, const op::Op& op);
  /// Gather or scatter; see algorithms/algorithms.hpp.
  Outcome rooted(Rooted kind, const std::optional<Buffer>& own, const Blocks& blocks, int root);
  /// Blocks of any size; every rank knows all sizes.
  Outcome allgather(const std::optional<Buffer>& own, const Blocks& blocks);
  /// &out == &in is MPI_IN_PLACE, here and in alltoallv(), which then returns nullopt.
  Outcome alltoall(const Blocks& out, const Blocks& in);
  /// Blocks of any size; only the sender and the receiver of a block know its size.
  Outcome alltoallv(const Blocks& out, const Blocks& in);

 private:
  /// Null in all processes if one of them cannot map its segment, or if no two ranks are on one host.
  static std::unique_ptr<HostTeam> make(Job& job, comm::Communicator& comm);
  HostTeam(comm::Communicator& comm, Hosts hosts, TeamSegment segment, Longest longest);

  [[nodiscard]] bool one_host() const noexcept { return hosts_.leaders.size() == 1; }
  /// Whether a reduction of `in` uses shared memory.
  [[nodiscard]] bool takes(const Buffer& in, const op::Op& op) const noexcept;
  [[nodiscard]] int own_host() const noexcept { return hosts_.of_rank[static_cast<std::size_t>(comm_.rank())]; }
  /// The rank on the team segment of a rank of this host.
  [[nodiscard]] int place(int rank) const noexcept;
  /// By host: its leader.  `root` takes the place of the leader of its host.
  [[nodiscard]] std::vector<int> leaders_for(int root) const;
  /// Runs the schedule that `build(Schedule&)` fills, among the leaders.  All other ranks only take the tag.
  template <class Build>
  int among(const std::vector<int>& leaders, Build&& build);
  /// Requires: all ranks call it as often, in the same operations.
  int next_tag();

  /// The size of the piece at `offset` of a message of `bytes` bytes that passes through the slots in pieces.
  [[nodiscard]] std::uint64_t piece(std::uint64_t bytes, std::uint64_t offset) const noexcept {
    return std::min(bytes - offset, segment_.slot_bytes());
  }
  /// Whether blocks of `bytes` bytes of all ranks use shared memory.
  [[nodiscard]] bool takes_blocks(std::uint64_t bytes) const noexcept;
  /// The blocks of all ranks in packed() memory: one after the other for each host, so that one message carries them.
  struct ByHost {
    Blocks hosts;  ///< by host: all blocks of its ranks
    Blocks ranks;  ///< by rank
  };
  ByHost by_host(const std::vector<std::uint64_t>& sizes, bool only_here);
  /// rooted() if only the sender and the receiver of a block know its size.
  int rooted_uneven(bool gathers, const std::optional<Buffer>& own, const Blocks& blocks, int root);
  /// `leader`, a rank of this host, gets the block of each rank of this host.  `longest`: the bytes of the longest
  /// block; all have as many, or one piece is enough.
  int gather_here(const std::optional<Buffer>& own, const Blocks& blocks, int leader, std::uint64_t longest);
  /// `leader`, a rank of this host, gives each rank of this host its block: a piece of each in one exchange.
  int scatter_here(const Blocks& blocks, const std::optional<Buffer>& own, int leader, std::uint64_t bytes);
  /// `longest`: the bytes of the longest block; not 0.
  int allgather_here(const std::optional<Buffer>& own, const Blocks& blocks, std::uint64_t longest);
  enum class Targets {
    one,  ///< each rank has a block for at most one rank (gatherv)
    many,
  };
  /// `out`, `in`: by rank, the block for, or from, another rank; null: there is none.
  int exchange_pairs(std::vector<const Buffer*> out, std::vector<const Buffer*> in, Targets targets);
  /// Memory of at least `bytes` bytes for packed blocks, valid until the next call; its allocation is reused.
  std::byte* packed(std::uint64_t bytes);

  // The part of this host.  `from`, `to`: ranks on the team segment; to == -1: all ranks get the result.
  int bcast_here(const Buffer& buffer, int from);
  int reduce_here(const Buffer& in, std::byte* out, const op::Op& op, int to);
  int reduce_piece(const Buffer& in, std::byte* out, const op::Op& op, int to);
  int scan_here(const Buffer& in, std::byte* out, const op::Op& op, bool exclusive);
  /// `most`: elements for each rank that one exchange carries.
  int reduce_scatter_here(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts, const op::Op& op,
                          std::uint64_t most);
  int reduce_scatter_between(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts, const op::Op& op);
  /// Whether each rank reduces one part of `piece`.  Otherwise each receiver of the result reduces the whole piece.
  [[nodiscard]] bool makes_parts(const Buffer& piece, int to) const noexcept;
  void combine(const Buffer& own, std::uint64_t offset, std::byte* out, const op::Op& op);

  comm::Communicator& comm_;
  const Hosts hosts_;
  TeamSegment segment_;
  const Config config_;
  const Longest longest_;          // the same in all processes
  std::vector<std::byte> part_;    // scratch memory of a reduction, slot_bytes()
  std::vector<std::byte> packed_;  // see packed()
};

}  // namespace mpi_shim::coll
