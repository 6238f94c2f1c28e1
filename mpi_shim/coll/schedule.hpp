// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/schedule.hpp — a collective operation as rounds of steps, and the code that runs them.
// An algorithm adds the steps of this process.  The messages of a round start together.  When all are complete, the
// local steps of the round (copies, reductions) run in the order in which they were added; then the next round starts.
// Later rounds start inside progress, so a non-blocking collective needs no call of its own.  A round that ends with a
// function of the application ends only in a thread of the application.
// Order rule for algorithms: the sends of a to b match the receives of b from a in the order in which they were added.
// A Schedule is a Request; a persistent one runs its steps again at each start.
// Owned by its Scheduler; valid from Scheduler::begin() to put_back().  Borrows buffers and, unless keep() is called,
// datatypes and operation.
// Threads: one thread adds the steps; from start() on under the Context's lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/comm/team.hpp"
#include "mpi_shim/op/op.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::coll {

class Scheduler;
using p2p::Buffer;
/// One Buffer for each rank: the blocks of a gather, scatter or alltoall.
using Blocks = std::vector<Buffer>;

class Schedule final : public Request, private p2p::Stalled {
 public:
  explicit Schedule(Scheduler& scheduler) noexcept;

  // --- Adding steps, before start()

  /// The team whose ranks the following send() and receive() calls use.  Initially the team given to begin().
  void set_team(const Team& team) noexcept { team_ = team; }
  /// This process's rank in the team, and the size of the team.
  [[nodiscard]] int rank() const noexcept { return team_.rank(); }
  [[nodiscard]] int size() const noexcept { return team_.size(); }

  void send(const Buffer& buffer, int to);
  void receive(const Buffer& buffer, int from);
  /// Copies the bytes of `from` into `to`, at most to.bytes().
  void copy(const Buffer& from, const Buffer& to);
  /// inout = in op inout, element by element.  `in` has the count and type of `inout`.
  void reduce(const void* in, const Buffer& inout, const op::Op& op);
  /// Ends the current round: steps added later start when all earlier ones are complete.
  void end_round();

  /// Uninitialised memory, valid until put_back().
  std::byte* scratch(std::size_t bytes);
  /// A buffer of the count and type of `like` in scratch() memory, which also covers the padding of the elements.
  Buffer scratch_like(const Buffer& like);

  /// For a schedule that outlives the MPI call: takes references to the datatypes and the operation of the steps added
  /// so far, since the program may free them.
  void keep();

 private:
  friend class Scheduler;
  static const Actions kActions;
  struct Step {
    enum class Kind : std::uint8_t { send, receive, copy, reduce, end_round };
    Kind kind;
    int rank = 0;
    Buffer buffer;
    Buffer other;              // copy: the target
    const void* in = nullptr;  // reduce
    const op::Op* op = nullptr;
  };

  void begin_rounds() noexcept;
  void put_away() noexcept;
  void run() noexcept;
  void start_round() noexcept;
  void finish_round() noexcept;
  /// If this is a thread of the library and the round ends with a function of the application: leaves the end to the
  /// application's next round of progress, and returns true.
  bool defer_round() noexcept;
  /// The resume function of Stalled.
  bool end_deferred_round() noexcept;
  /// Ends the schedule early after a failed message, whose error is the result.  The remaining sends become failure
  /// messages (wire::kFailure), so that the peers end as well; the remaining receives take and drop their messages.
  void leave_rounds() noexcept;
  void watch(Request& request) noexcept;
  void one_done(Request& request) noexcept;

  Scheduler& scheduler_;
  comm::Communicator* comm_ = nullptr;
  Team team_{0, 1};
  int message_tag_ = 0;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<datatype::DatatypeRef> types_;
  handle::Ref<op::Op> op_;
  std::size_t position_ = 0;   // first step of the current round
  std::uint32_t pending_ = 0;  // incomplete messages of the current round; one more while run() starts them
  bool running_ = false;       // inside run(): one_done() must not call run() again
};

/// The pool of the schedules of one VCI.  Owns them; borrows the Engine.  Threads: any; takes the Context's lock.
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
