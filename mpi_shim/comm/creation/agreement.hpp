// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/agreement.hpp — the processes of a new communicator agree on a number that is free in all of
// them; the VCI follows from it.  Each process reserves its lowest free number, and an allreduce finds the maximum and
// the minimum.  If they are equal, that number is agreed.  If not, every process reserves the maximum instead, or,
// where it is taken, a free number above it, at a pseudo-random distance; then the next allreduce.  The distance
// differs between concurrent agreements: two of them do not refuse each other for ever.
// IdAgreement does not block: the next step runs inside progress (MPI_Comm_idup).  make_agreed() blocks.
// Lifetime: not destroyed before over().
// Threads: start() and over() any thread; the steps run under the lock of the VCI of `participants.comm`; the table of
// numbers is guarded by Job::lock(), taken here.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "mpi_shim/coll/algorithms/exchange.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/comm/team.hpp"

namespace mpi_shim::comm {

/// The processes that agree: `team` names ranks of the collective channel of `comm`.  All use the same `tag`, which
/// nothing else uses on that channel meanwhile.  Requires: `comm`, and the list of ranks that `team` borrows, outlive
/// the last run() and the IdAgreement.
struct Participants {
  Communicator& comm;
  coll::Team team;
  int tag;

  /// All processes of `comm`, with the next collective tag: every process calls it, in the same order among its
  /// collectives on `comm`.
  static Participants of_all(Communicator& comm);

  /// Blocks: runs the schedule that `build(Schedule&)` fills.  Returns an MPI error class.
  template <class Build>
  int run(Build&& build) const {
    return coll::run(comm, team, tag, build);
  }

  /// Blocks: an allgather; all[r] becomes the record of rank r of the team.  `Record` is trivially copyable.  Returns
  /// an MPI error class.
  template <class Record>
  int exchange(const Record& mine, std::vector<Record>& all) const {
    all.resize(static_cast<std::size_t>(team.size()));
    all[static_cast<std::size_t>(team.rank())] = mine;
    return run([&](coll::Schedule& schedule) { build_allgather(schedule, std::nullopt, coll::blocks_of(all)); });
  }
};

/// A negative tag, a hash of `common`; collectives use tags >= 0.  All users pass the same `common`.  Two values may
/// give the same tag.
int private_tag(std::uint64_t common) noexcept;

class IdAgreement {
 public:
  /// Called once when the agreement ends, inside progress or start(), under the lock of the VCI of `participants.comm`.
  /// May destroy the agreement.
  struct Watcher {
    void (*fn)(void* object, IdAgreement& agreement) noexcept = nullptr;
    void* object = nullptr;
  };

  IdAgreement(Communicators& communicators, const Participants& participants) noexcept
      : communicators_(communicators), participants_(participants) {}

  /// Starts; does not block.  Any thread, without Job::lock() held.
  void start(const Watcher& watcher);
  /// Any thread.  When it returns true a waiter may destroy the object, unless a watcher is set.
  [[nodiscard]] bool over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// Requires: over().  An MPI error class.
  [[nodiscard]] int error() const noexcept { return error_; }
  /// Requires: over() and no error.  The agreed number, reserved in this process, and its VCI.
  [[nodiscard]] Number number() const noexcept;
  /// Releases the reservation; for a process that does not create a communicator with the number.
  void release() noexcept;

 private:
  /// Starts an allreduce (MPI_MAX) of the numbers of all processes; found() handles the result.
  void find_maximum();
  /// The reduction is done: ends, or tries the largest number.
  void found() noexcept;
  [[nodiscard]] std::uint32_t distance() const noexcept;
  void end(int error) noexcept;

  Communicators& communicators_;
  const Participants participants_;
  Watcher watcher_;
  std::array<std::int64_t, 3> values_{};  // of the reduction: mine_, -mine_, -count of VCIs
  unsigned vcis_ = 1;                     // smallest VCI count of the participants
  std::uint32_t mine_ = 0;                // the number that this process has reserved
  std::uint32_t rounds_ = 0;              // reductions without agreement
  int error_ = 0;
  std::atomic<bool> over_{false};
};

/// Blocks until all participants have agreed, then creates the communicator of `sides`.  If sides.own is null, this
/// process takes part but is not a member; the result then has neither error nor communicator.  Requires: the caller
/// holds no VCI lock.  Errors: of the reductions; MPI_ERR_NO_MEM, in this process alone.
Made make_agreed(Communicators& communicators, const Participants& participants, Sides sides, ErrhandlerRef errhandler);

}  // namespace mpi_shim::comm
