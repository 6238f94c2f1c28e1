// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/agreement.hpp — the processes of a communicator that is being made agree on a number that none
// of them uses, and thereby on a VCI: usually the lowest free one is the same for all, and one reduction says so;
// otherwise all try the largest proposal.  Agreements of different meetings that are under way at the same time may
// hold each other's candidates: each meeting then goes on at a place of its own.  Runs inside progress, so that
// MPI_Comm_idup need not wait.  Must not move between start() and its end. Threads: under the Context's lock, taken
// here.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "mpi_shim/coll/schedule.hpp"
#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/comm/id_table.hpp"
#include "mpi_shim/comm/team.hpp"

namespace mpi_shim::comm {

class Communicators;

/// Who agrees, and how they reach each other: a part of a communicator's collectives' channel and a tag that all of
/// them know.  The team's list of ranks outlives the agreement.
struct Meeting {
  Communicator& comm;
  coll::Team team;
  int tag;

  /// All processes of `comm`; every one of them has to call it in the order of its collectives.
  static Meeting of_all(Communicator& comm);
};

/// A tag no collective uses, out of what those who use it have in common.
int private_tag(std::uint64_t common) noexcept;

class IdAgreement {
 public:
  /// Told once, from inside progress or start().
  struct Watcher {
    void (*fn)(void* object, IdAgreement& agreement) noexcept = nullptr;
    void* object = nullptr;
  };

  IdAgreement(Communicators& communicators, const Meeting& meeting) noexcept
      : communicators_(communicators), meeting_(meeting) {}
  IdAgreement(const IdAgreement&) = delete;
  IdAgreement& operator=(const IdAgreement&) = delete;

  void start(const Watcher& watcher);
  [[nodiscard]] bool over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// Once over: an error class, and without an error the number, reserved in this process.
  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] Number number() const noexcept;

 private:
  void propose();
  /// Has `values_` become the largest of all processes' values and then goes on.
  void find_maximum();
  void found() noexcept;
  void end(int error) noexcept;

  Communicators& communicators_;
  const Meeting meeting_;
  Watcher watcher_;
  std::array<std::int64_t, 3> values_{};
  unsigned vcis_ = 1;  // that each process of the meeting has
  std::uint32_t mine_ = 0;
  std::uint32_t from_ = 0;
  std::uint32_t rounds_ = 0;
  bool confirming_ = false;  // the second reduction of a round: has anybody refused?
  bool reserved_ = false;
  int error_ = 0;
  std::atomic<bool> over_{false};
};

/// Blocks until all of the meeting have agreed.  An error class.
int agree_on_number(Communicators& communicators, const Meeting& meeting, Number& number);

/// For a process that took part and then is not in the communicator.
void give_up(Communicators& communicators, const Number& number);

}  // namespace mpi_shim::comm
