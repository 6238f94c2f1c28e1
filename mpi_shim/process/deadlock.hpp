// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/deadlock.hpp — the deadlock detector: reports on stderr that all ranks of a job wait, and for what.
// A rank that stays in one wait for a period sends rank 0 a report of what it waits for, and again after each period.
// When every rank, rank 0 included, has sent the same report twice in a row, rank 0 prints: a message in flight would
// have taken longer than a period.  It is no proof, since a thread outside of MPI may still act; so the job continues.
// Exists only if mpi_deadlock_report is set; otherwise waits have no idle observer.
// Owned by the Process; borrows Vcis and peers.  Threads: any; takes Vcis::lock() for its own state.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/waits/vcis.hpp"

namespace mpi_shim {

class DeadlockDetector final : private p2p::IdleObserver {
 public:
  /// Describes a channel for the report: "MPI_COMM_WORLD", "a collective function of ...".  Called with a VCI's lock.
  using Namer = std::function<std::string(const p2p::Channel&)>;

  /// `processes`: the peers of MPI_COMM_WORLD by rank; borrowed.  Requires: no other thread is inside MPI yet.
  /// Errors: limit_reached (the tag has a handler).
  static Result<std::unique_ptr<DeadlockDetector>> start(p2p::Vcis& vcis, std::span<p2p::Peer* const> processes,
                                                         int rank, std::chrono::milliseconds period, Namer namer);
  ~DeadlockDetector();

 private:
  using Clock = std::chrono::steady_clock;
  /// The latest report of a rank.
  struct LastReport {
    std::uint64_t state = 0;  // a hash of what the rank waits for and of its message counters
    int times = 0;            // reports in a row with this state
    Clock::time_point last;   // arrival of the latest report
    std::string text;
    std::vector<int> waits_for;
  };

  DeadlockDetector(p2p::Vcis& vcis, std::span<p2p::Peer* const> processes, int rank, std::chrono::milliseconds period,
                   Namer namer);
  void on_idle(std::uint64_t wait, const char* what) noexcept override;
  void on_report(btl::Delivery& delivery) noexcept;
  void record(std::size_t from, std::uint64_t state, std::string text, std::vector<int> waits_for);
  void report_if_all_wait();
  [[nodiscard]] std::string cycle() const;

  p2p::Vcis& vcis_;
  const std::span<p2p::Peer* const> processes_;
  const int rank_;
  const Namer namer_;
  Clock::time_point told_;           // when this rank last sent a report
  std::vector<LastReport> reports_;  // at rank 0: by rank; else empty
  std::uint64_t reported_ = 0;       // hash of the states of all ranks that were last printed
};

}  // namespace mpi_shim
