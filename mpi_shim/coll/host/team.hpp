// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host/team.hpp — collectives of a communicator in two levels: the ranks of a host through shared memory,
// one rank of each host with those of the other hosts by messages (docs/design/mpi-collectives.md).
// Blocking ones only; made after some of them, when all processes are in one.  Owned by its communicator.
// Each operation answers an error class, or nothing when it is none for shared memory: the same in all processes, by
// what the standard makes equal there.
// Threads: one at a time, as the standard has it for the collectives of a communicator.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/coll/host/team_segment.hpp"
#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/coll/scheduler.hpp"

namespace mpi_shim {
class Job;
}

namespace mpi_shim::coll {

/// The ranks of a communicator by hosts.
struct Hosts {
  std::vector<int> leaders;             ///< the lowest rank of each, ascending
  std::vector<int> of_rank;             ///< by rank: which host, an index into leaders
  std::vector<int> here;                ///< this host's ranks, ascending
  std::vector<std::vector<int>> ranks;  ///< of each host, ascending
  std::size_t most = 0;                 ///< ranks of the host that has the most
  bool in_order = true;                 ///< each host's ranks follow one another
};

/// Bytes that go through shared memory, at most.
struct Longest {
  std::uint64_t message;
  std::uint64_t alltoall;  ///< of a block for one rank
};

class HostTeam {
 public:
  using Outcome = std::optional<int>;

  /// The team, if a blocking collective on `comm` may use it: null at first, and where there is none.  To be called
  /// once for each of them in every process.
  static HostTeam* find(Job& job, comm::Communicator& comm);

  Outcome barrier();
  Outcome bcast(const Buffer& buffer, int root);
  Outcome reduce(const Buffer& in, const Buffer& out, const op::Op& op, int root);
  Outcome allreduce(const Buffer& in, const Buffer& out, const op::Op& op);
  Outcome scan(const Buffer& in, const Buffer& out, const op::Op& op, bool exclusive);
  /// `counts` elements of `in` are for each rank.
  Outcome reduce_scatter(const Buffer& in, const Buffer& out, std::span<const std::uint64_t> counts, const op::Op& op);
  /// Blocks of the same size; a null `own` is MPI_IN_PLACE.
  Outcome gather(const std::optional<Buffer>& own, const Blocks& blocks, int root);
  Outcome scatter(const std::optional<Buffer>& own, const Blocks& blocks, int root);
  Outcome allgather(const std::optional<Buffer>& own, const Blocks& blocks);
  /// Blocks of any size, of which every rank knows all.
  Outcome allgatherv(const std::optional<Buffer>& own, const Blocks& blocks);
  /// `out` may be `in`.
  Outcome alltoall(const Blocks& out, const Blocks& in);
  /// Blocks of any size, which only the two ranks know that it is from and for.
  Outcome gatherv(const std::optional<Buffer>& own, const Blocks& blocks, int root);
  Outcome scatterv(const std::optional<Buffer>& own, const Blocks& blocks, int root);
  Outcome alltoallv(const Blocks& out, const Blocks& in);

 private:
  /// Null when shared memory is not to be had in some process, or joins no two ranks; then it is so in all.
  static std::unique_ptr<HostTeam> make(Job& job, comm::Communicator& comm);
  HostTeam(Job& job, comm::Communicator& comm, Hosts hosts, TeamSegment segment, Longest longest);

  [[nodiscard]] bool one_host() const noexcept { return hosts_.leaders.size() == 1; }
  [[nodiscard]] bool takes(const Buffer& in, const op::Op& op) const noexcept;
  [[nodiscard]] int own_host() const noexcept { return hosts_.of_rank[static_cast<std::size_t>(comm_.rank())]; }
  /// A rank of this host on its team segment.
  [[nodiscard]] int place(int rank) const noexcept;
  /// The leader of each host, by hosts; `root` is the leader of its own host.
  [[nodiscard]] std::vector<int> leaders_for(int root) const;
  /// Runs what `build` writes down for the leaders; all others only count it.
  template <class Build>
  int among(const std::vector<int>& leaders, Build&& build);
  /// Taken by all ranks in the same operation.
  int next_tag();

  /// Of a message that passes through slots piece by piece: the size of the piece at `offset`.
  [[nodiscard]] std::uint64_t piece(std::uint64_t bytes, std::uint64_t offset) const noexcept {
    return std::min(bytes - offset, segment_.slot_bytes());
  }
  /// Whether blocks of so many bytes, which all ranks of a host have, go through its memory.
  [[nodiscard]] bool takes_blocks(std::uint64_t bytes) const noexcept;
  /// Hands each rank of this host what `leader`, one of them, has for it: blocks of `bytes` in the order of the ranks.
  int scatter_here(const Blocks& blocks, const std::optional<Buffer>& own, int leader, std::uint64_t bytes);
  /// Of one host: blocks of which a slot does not hold one for every rank.
  int scatter_pieces(const Blocks& blocks, const std::optional<Buffer>& own, int root, std::uint64_t bytes);
  int alltoall_pieces(const Blocks& out, const Blocks& in, std::uint64_t bytes);
  /// Packs this host's blocks for other hosts from the slots, exchanges, and hands out what came.
  int alltoall_between(const Blocks& in, std::uint64_t bytes);
  /// Of at least one byte in all.
  int allgather_here(const std::optional<Buffer>& own, const Blocks& blocks);
  struct PairsAre {
    bool to_one = false;    ///< no rank has blocks for more than one rank
    bool in_place = false;  ///< blocks for others lie where theirs go
  };
  template <class OutTo, class InFrom>
  int exchange_pairs(const OutTo& out_to, const InFrom& in_from, PairsAre are);
  template <class BlockOf>
  std::vector<const Buffer*> blocks_left(const BlockOf& block_of, std::uint64_t left) const;
  Blocks put_aside(std::span<const Buffer*> blocks);
  /// Memory for packed blocks, until the next call; kept for the next operation.
  std::byte* packed(std::uint64_t bytes);

  int bcast_here(const Buffer& buffer, int from);
  int reduce_here(const Buffer& in, std::byte* out, const op::Op& op, int to);
  int reduce_piece(const Buffer& in, std::byte* out, const op::Op& op, int to);
  int scan_here(const Buffer& in, std::byte* out, const op::Op& op, bool exclusive);
  /// At most `most` elements for each rank at a time.
  int reduce_scatter_here(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts, const op::Op& op,
                          std::uint64_t most);
  int scan_between(const Buffer& in, std::byte* out, const op::Op& op, bool exclusive);
  int reduce_scatter_between(const Buffer& in, std::byte* out, std::span<const std::uint64_t> counts, const op::Op& op);
  [[nodiscard]] bool makes_parts(const Buffer& piece, int to) const noexcept;
  void combine(const Buffer& own, std::uint64_t offset, std::byte* out, const op::Op& op);

  Job& job_;
  comm::Communicator& comm_;
  const Hosts hosts_;
  TeamSegment segment_;
  const Config config_;
  const Longest longest_;          // the same in all processes
  std::vector<std::byte> part_;    // where this rank's part of a reduction is made
  std::vector<std::byte> packed_;  // blocks on their way between hosts
};

}  // namespace mpi_shim::coll
