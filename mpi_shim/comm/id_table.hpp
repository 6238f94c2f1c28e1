// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/id_table.hpp — the communicator numbers that this process uses: 0 for MPI_COMM_WORLD, 1 for
// MPI_COMM_SELF, others from 2 on.  A number stays reserved while the processes of a new communicator agree on it, so
// threads that create communicators concurrently get different ones.  Threads: under Job::lock().
#pragma once
#include <cstdint>
#include <vector>

namespace mpi_shim::comm {

/// The number of a communicator and its VCI.
struct Number {
  std::uint32_t id = 0;
  unsigned vci = 0;  ///< the number of the VCI that carries its messages, in each process
};

class IdTable {
 public:
  /// Reserves the lowest free number that is at least `from`.
  std::uint32_t reserve_free(std::uint32_t from) {
    for (std::uint32_t id = from;; ++id) {
      if (reserve(id)) return id;
    }
  }
  /// Reserves `id`.  False: it is already reserved.
  bool reserve(std::uint32_t id) {
    if (used_.size() <= id) used_.resize(id + std::size_t{1});
    if (used_[id]) return false;
    used_[id] = true;
    return true;
  }
  void release(std::uint32_t id) noexcept { used_[id] = false; }

 private:
  std::vector<bool> used_;
};

}  // namespace mpi_shim::comm
