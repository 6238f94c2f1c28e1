// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/group.hpp — an ordered set of processes.  Immutable once made; shared by handles and communicators.
#pragma once
#include <span>
#include <vector>

#include "mpi_shim/include/mpi.h"

namespace mpi_shim::comm {

class Group {
 public:
  /// `processes`: by rank, the number of the process in the job; each at most once.  `self`: this process's number.
  Group(std::vector<int> processes, int self);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(processes_.size()); }
  /// This process's rank, or MPI_UNDEFINED.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int process(int rank) const noexcept { return processes_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::span<const int> processes() const noexcept { return processes_; }
  /// The rank of a process of the job, or MPI_UNDEFINED.
  [[nodiscard]] int rank_of(int process) const noexcept;

  /// MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
  [[nodiscard]] int compare(const Group& other) const;

 private:
  std::vector<int> processes_;
  std::vector<int> by_process_;  // ranks, in ascending order of their process; empty when processes_ ascends
  int rank_;
};

// The results of MPI_Group_union, _intersection and _difference: process numbers in the order of the standard.
std::vector<int> union_of(const Group& a, const Group& b);
std::vector<int> intersection_of(const Group& a, const Group& b);
std::vector<int> difference_of(const Group& a, const Group& b);

}  // namespace mpi_shim::comm
