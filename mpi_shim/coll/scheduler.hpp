// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/scheduler.hpp — where schedules come from and go back to.  Owns them.
// Threads: under the Context's lock, taken here.
#pragma once
#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::coll {

class Scheduler {
 public:
  Scheduler(p2p::Engine& engine, const Config& config) noexcept : engine_(engine), config_(config) {}

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  /// An empty schedule for the next collective on `comm`: to be called in the same order in all its processes.
  Schedule& begin(comm::Communicator& comm);
  /// An empty schedule for `team` on `comm`, whose messages have `tag`: for what only some processes of `comm` take
  /// part in, or what sends more than one schedule's messages under one tag.  Tags that begin() never gives are
  /// negative.
  Schedule& begin(comm::Communicator& comm, const Team& team, int tag);

  /// Whether a collective that was started on `comm` is not done.
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
