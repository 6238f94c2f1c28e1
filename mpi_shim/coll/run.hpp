// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/run.hpp — blocking execution of a schedule, for blocking collectives and for the library itself.
// Requires: the caller holds no lock.  All functions block and return an error class.
#pragma once
#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/job/vci.hpp"

namespace mpi_shim::coll {

/// Starts the schedule, waits for its end, and returns it to its Scheduler; `schedule` is invalid afterwards.
inline int run(Schedule& schedule) {
  schedule.start();
  schedule.engine()->wait(schedule);
  const int error = schedule.outcome().error;
  schedule.put_back();
  return error;
}

/// Calls `build(Schedule&)`, which adds the steps of one collective on `comm`, and runs the schedule.
template <class Build>
int run(comm::Communicator& comm, Build&& build) {
  Schedule& schedule = comm.vci().scheduler().begin(comm);
  build(schedule);
  return run(schedule);
}

/// As above for the processes of `team`, with messages of `tag`; see Scheduler::begin().
template <class Build>
int run(comm::Communicator& comm, const Team& team, int tag, Build&& build) {
  Schedule& schedule = comm.vci().scheduler().begin(comm, team, tag);
  build(schedule);
  return run(schedule);
}

}  // namespace mpi_shim::coll
