// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/algorithms/exchange.hpp — a blocking allgather of one record per rank, for the library itself.
#pragma once
#include <optional>
#include <type_traits>
#include <vector>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/run.hpp"

namespace mpi_shim::coll {

/// One block for each record.  The blocks borrow `records`.
template <class Record>
Blocks blocks_of(std::vector<Record>& records) {
  static_assert(std::is_trivially_copyable_v<Record>);
  Blocks blocks;
  for (Record& record : records) blocks.push_back(p2p::Buffer::of_bytes(&record, sizeof record));
  return blocks;
}

/// Gives every rank the records of all ranks.  Collective over `comm`; blocks.
/// `records` has one record per rank; the caller fills in its own.  Returns an error class.
template <class Record>
int exchange(comm::Communicator& comm, std::vector<Record>& records) {
  return run(comm, [&](Schedule& schedule) { build_allgather(schedule, std::nullopt, blocks_of(records)); });
}

}  // namespace mpi_shim::coll
