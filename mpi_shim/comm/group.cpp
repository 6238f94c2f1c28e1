// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/group.hpp"

#include <algorithm>
#include <numeric>

namespace mpi_shim::comm {

Group::Group(std::vector<int> processes, int self) : processes_(std::move(processes)) {
  if (!std::is_sorted(processes_.begin(), processes_.end())) {
    by_process_.resize(processes_.size());
    std::iota(by_process_.begin(), by_process_.end(), 0);
    std::sort(by_process_.begin(), by_process_.end(), [this](int a, int b) { return process(a) < process(b); });
  }
  rank_ = rank_of(self);
}

int Group::rank_of(int process_number) const noexcept {
  if (by_process_.empty()) {
    const auto found = std::lower_bound(processes_.begin(), processes_.end(), process_number);
    if (found == processes_.end() || *found != process_number) return MPI_UNDEFINED;
    return static_cast<int>(found - processes_.begin());
  }
  const auto found = std::lower_bound(by_process_.begin(), by_process_.end(), process_number,
                                      [this](int rank, int wanted) { return process(rank) < wanted; });
  if (found == by_process_.end() || process(*found) != process_number) return MPI_UNDEFINED;
  return *found;
}

int Group::compare(const Group& other) const {
  if (processes_ == other.processes_) return MPI_IDENT;
  if (size() != other.size()) return MPI_UNEQUAL;
  const bool same_members = std::all_of(processes_.begin(), processes_.end(),
                                        [&](int process) { return other.rank_of(process) != MPI_UNDEFINED; });
  return same_members ? MPI_SIMILAR : MPI_UNEQUAL;
}

namespace {
/// The processes of `a` that are in `b` (in_b), or that are not in `b`.
std::vector<int> chosen(const Group& a, const Group& b, bool in_b) {
  std::vector<int> some;
  for (const int process : a.processes()) {
    if ((b.rank_of(process) != MPI_UNDEFINED) == in_b) some.push_back(process);
  }
  return some;
}
}  // namespace

std::vector<int> union_of(const Group& a, const Group& b) {
  std::vector<int> all{a.processes().begin(), a.processes().end()};
  const std::vector<int> others = chosen(b, a, false);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::vector<int> intersection_of(const Group& a, const Group& b) { return chosen(a, b, true); }
std::vector<int> difference_of(const Group& a, const Group& b) { return chosen(a, b, false); }

}  // namespace mpi_shim::comm
