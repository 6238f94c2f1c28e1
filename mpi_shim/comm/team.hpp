// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/team.hpp — the processes of a channel that take part in one part of a collective: all, one side of an
// intercommunicator, the leaders of the hosts, or a group.  Algorithms use the team's ranks 0 to size - 1; in_channel()
// translates them to ranks of the channel.  A value; borrows the list of ranks.
#pragma once
#include <span>

namespace mpi_shim::coll {

class Team {
 public:
  /// The ranks [first, first + size) of the channel.  `rank`: this process's rank in the team; negative: it is not in
  /// the team and only exchanges messages with it.
  Team(int rank, int size, int first = 0) noexcept : rank_(rank), size_(size), first_(first) {}
  /// The listed ranks of the channel.  `ranks` must stay valid until all steps of a schedule are added.
  Team(int rank, std::span<const int> ranks) noexcept
      : rank_(rank), size_(static_cast<int>(ranks.size())), ranks_(ranks.data()) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Translates a rank of the team to a rank of the channel.
  [[nodiscard]] int in_channel(int rank) const noexcept { return ranks_ != nullptr ? ranks_[rank] : first_ + rank; }

 private:
  int rank_;
  int size_;
  int first_ = 0;
  const int* ranks_ = nullptr;
};

}  // namespace mpi_shim::coll
