// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/agreement.hpp — the processes of a communicator that is being made agree on a number that none
// of them uses, and thereby on a VCI: usually the lowest free one is the same for all, and one reduction says so;
// otherwise all try the largest proposal.  Agreements of different participants at the same time may
// hold each other's candidates: each agreement then goes on at a number of its own.  Runs inside progress, so that
// MPI_Comm_idup need not wait.  Must not move between start() and its end. Threads: under the Context's lock, taken
// here.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "mpi_shim/coll/algorithms/exchange.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/comm/team.hpp"

namespace mpi_shim::comm {

/// The processes that agree, and how they reach each other: a part of a communicator's collectives' channel and a tag
/// that all of them know.  The team's list of ranks outlives the agreement.
struct Participants {
  Communicator& comm;
  coll::Team team;
  int tag;

  /// All processes of `comm`; every one of them has to call it in the order of its collectives.
  static Participants of_all(Communicator& comm);

  /// Runs what `build(Schedule&)` writes down for them.  An error class.
  template <class Build>
  int run(Build&& build) const {
    return coll::run(comm, team, tag, build);
  }

  /// Gives each of them the records of all, by their ranks in the team.  An error class.
  template <class Record>
  int exchange(const Record& mine, std::vector<Record>& all) const {
    all.resize(static_cast<std::size_t>(team.size()));
    all[static_cast<std::size_t>(team.rank())] = mine;
    return run([&](coll::Schedule& schedule) { build_allgather(schedule, std::nullopt, coll::blocks_of(all)); });
  }
};

/// A tag that no collective uses, computed from what its users have in common.
int private_tag(std::uint64_t common) noexcept;

class IdAgreement {
 public:
  /// Told once, from inside progress or start().
  struct Watcher {
    void (*fn)(void* object, IdAgreement& agreement) noexcept = nullptr;
    void* object = nullptr;
  };

  IdAgreement(Communicators& communicators, const Participants& participants) noexcept
      : communicators_(communicators), participants_(participants) {}
  IdAgreement(const IdAgreement&) = delete;
  IdAgreement& operator=(const IdAgreement&) = delete;

  void start(const Watcher& watcher);
  [[nodiscard]] bool over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// Once over: an error class, and without an error the number, reserved in this process.
  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] Number number() const noexcept;
  /// For a process that then does not use the number.
  void give_up() noexcept;

 private:
  void propose();
  /// Has `values_` become the largest of all processes' values and then goes on.
  void find_maximum();
  void found() noexcept;
  void end(int error) noexcept;

  Communicators& communicators_;
  const Participants participants_;
  Watcher watcher_;
  std::array<std::int64_t, 3> values_{};
  unsigned vcis_ = 1;  // that each participant has
  std::uint32_t mine_ = 0;
  std::uint32_t from_ = 0;
  std::uint32_t rounds_ = 0;
  bool confirming_ = false;  // the second reduction of a round: has any process refused?
  bool reserved_ = false;
  int error_ = 0;
  std::atomic<bool> over_{false};
};

/// Blocks until all participants have agreed, and makes the communicator of `sides`.  Without an own side this process
/// takes part, and then is not in the communicator.
Made make_agreed(Communicators& communicators, const Participants& participants, Sides sides,
                 std::shared_ptr<const Errhandler> errhandler);

}  // namespace mpi_shim::comm
