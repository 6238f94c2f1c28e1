// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/run.hpp — a collective from its beginning to its end, for blocking calls and for the library itself.
#pragma once
#include "mpi_shim/coll/scheduler.hpp"
#include "mpi_shim/job/vci.hpp"

namespace mpi_shim::coll {

/// Runs a schedule to its end and gives it back.  An error class.
inline int run(Schedule& schedule) {
  schedule.start();
  schedule.engine()->wait(schedule);
  const int error = schedule.outcome().error;
  schedule.put_back();
  return error;
}

/// Has `build(Schedule&)` write down a collective on `comm` and runs it.  An error class.
template <class Build>
int run(comm::Communicator& comm, Build&& build) {
  Schedule& schedule = comm.vci().scheduler().begin(comm);
  build(schedule);
  return run(schedule);
}

/// The same for the processes of `team`, with messages of `tag`.
template <class Build>
int run(comm::Communicator& comm, const Team& team, int tag, Build&& build) {
  Schedule& schedule = comm.vci().scheduler().begin(comm, team, tag);
  build(schedule);
  return run(schedule);
}

}  // namespace mpi_shim::coll
