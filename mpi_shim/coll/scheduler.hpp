// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/scheduler.hpp — the pool of the schedules of one VCI (schedule.cpp).  Owns them; borrows the Engine.
// Threads: any; takes the Context's lock.
#pragma once
#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

class Scheduler {
 public:
  Scheduler(p2p::Engine& engine, const Config& config) noexcept : engine_(engine), config_(config) {}

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  /// An empty schedule for the next collective on `comm`, with the next collective tag and comm.own_side() as team.
  /// Requires: all processes of `comm` call it in the same order.  Valid until Schedule::put_back().
  Schedule& begin(comm::Communicator& comm);
  /// An empty schedule for `team` on `comm`, whose messages have `tag`.  For operations of some processes of `comm`
  /// only, and for several schedules with one tag.  `tag` is a next_collective_tag(), or negative
  /// (comm::private_tag()): the other begin() assigns no negative tags.
  Schedule& begin(comm::Communicator& comm, const Team& team, int tag);

  /// Whether a schedule on `comm` is started and not done.
  [[nodiscard]] bool has_pending(const comm::Communicator& comm) const noexcept {
    const am::Lock::Guard guard{engine_.lock()};
    return pool_.any(
        [&](const Schedule& schedule) { return schedule.comm_ == &comm && schedule.active() && !schedule.done(); });
  }

 private:
  friend class Schedule;
  p2p::Engine& engine_;
  const Config config_;
  ObjectPool<Schedule, Scheduler> pool_;
};

}  // namespace mpi_shim::coll
