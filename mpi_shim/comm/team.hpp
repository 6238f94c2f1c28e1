// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/team.hpp — the processes of a channel that work together in one part of a collective: all of them, one
// side of an intercommunicator, those of one host, the members of a group.  Algorithms count 0 to size-1; the team says
// which ranks of the channel these are.  A value; a list of ranks is borrowed.
#pragma once
#include <span>

namespace mpi_shim::coll {

class Team {
 public:
  /// The ranks [first, first + size) of the channel.  `rank`: this process's place among them; negative: it only
  /// exchanges messages with them.
  Team(int rank, int size, int first = 0) noexcept : rank_(rank), size_(size), first_(first) {}
  /// The listed ranks of the channel, which outlive the writing down of a schedule.
  Team(int rank, std::span<const int> ranks) noexcept
      : rank_(rank), size_(static_cast<int>(ranks.size())), ranks_(ranks.data()) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// The rank in the channel of the team's `rank`.
  [[nodiscard]] int in_channel(int rank) const noexcept { return ranks_ != nullptr ? ranks_[rank] : first_ + rank; }

 private:
  int rank_;
  int size_;
  int first_ = 0;
  const int* ranks_ = nullptr;
};

}  // namespace mpi_shim::coll
