// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/schedule.hpp — a collective operation as rounds of steps, and the engine that runs them.
// An algorithm writes down what this process does: the messages of a round start together; when all are through, the
// round's local steps (copies, reductions) run in the order they were written; then the next round starts, from inside
// progress, so that a non-blocking collective moves whenever anything progresses.
// Order rule for algorithms: what a sends to b in one collective arrives in the order in which b's receives from a are
// written.  A Schedule is a Request; a persistent one runs its steps again at each start.
// Owned by its Scheduler.  Threads: under the Context's lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/comm/team.hpp"
#include "mpi_shim/op/op.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::coll {

class Scheduler;
using p2p::Buffer;
/// One for each rank, as the arguments of gathers, scatters and alltoalls describe them.
using Blocks = std::vector<Buffer>;

class Schedule final : public Request {
 public:
  explicit Schedule(Scheduler& scheduler) noexcept;

  // --- Writing it down

  /// Whose ranks the following steps name; at first those of the process's own side of the communicator.
  void set_team(const Team& team) noexcept { team_ = team; }
  /// This process in the team, and how many they are.
  [[nodiscard]] int rank() const noexcept { return team_.rank(); }
  [[nodiscard]] int size() const noexcept { return team_.size(); }

  void send(const Buffer& buffer, int to);
  void receive(const Buffer& buffer, int from);
  /// The bytes of `from`, as far as they go, into `to`.
  void copy(const Buffer& from, const Buffer& to);
  /// inout = in op inout, element by element.
  void reduce(const void* in, const Buffer& inout, const op::Op& op);
  /// What follows starts when all before it is done.
  void end_round();

  /// Memory that lives as long as the schedule.
  std::byte* scratch(std::size_t bytes);
  /// Room for what `like` has, padding included, in memory of the schedule.
  Buffer scratch_like(const Buffer& like);

  /// For a schedule that outlives the call: the program may free its datatypes and its operation.
  void keep_types();
  void keep_op(const op::Op& op);

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
  /// After a message that did not come or did not fit, whose error is the result.  In place of the messages of the
  /// rounds that are left, peers are sent that there is none, so that they end as well.
  void leave_rounds() noexcept;
  void start_receive(const Step& step) noexcept;
  void start_send(const Step& step) noexcept;
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
  std::size_t position_ = 0;  // first step of the round that runs
  std::uint32_t pending_ = 0;
  bool running_ = false;  // in run(): a message that is done at once must not start it again
};

}  // namespace mpi_shim::coll
