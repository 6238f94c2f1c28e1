// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host/team_steps.hpp — helpers of the files that implement HostTeam: copies to and from slots, and the
// schedules among the leaders.
#pragma once
#include <algorithm>

#include "mpi_shim/coll/host/team.hpp"
#include "mpi_shim/coll/run.hpp"

/// Returns from the enclosing function if `expression` is an error class.  The other ranks find the error in their own
/// waits.
#define OPAL_MPI_STEP(expression) \
  if (const int error = (expression); error != MPI_SUCCESS) return error

namespace mpi_shim::coll {

inline std::size_t at(int rank) noexcept { return static_cast<std::size_t>(rank); }

/// Copies to.size() bytes of the message from byte `offset` on into a slot.
inline void put(const Buffer& from, std::uint64_t offset, MutableBytes to) noexcept { p2p::pack(from, to, offset); }
/// The same out of a slot.
inline void get(ByteSpan from, const Buffer& to, std::uint64_t offset) noexcept { p2p::unpack(from, to, offset); }

inline int HostTeam::next_tag() {
  const am::Lock::Guard guard{comm_.engine().lock()};
  return comm_.next_collective_tag();
}

template <class Build>
int HostTeam::among(const std::vector<int>& leaders, Build&& build) {
  const int tag = next_tag();
  const auto own = std::find(leaders.begin(), leaders.end(), comm_.rank());
  if (own == leaders.end()) return MPI_SUCCESS;
  return run(comm_, Team{static_cast<int>(own - leaders.begin()), leaders}, tag, build);
}

}  // namespace mpi_shim::coll
