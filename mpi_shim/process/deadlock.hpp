// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/deadlock.hpp — reports on stderr that all ranks of a job wait for each other, and for which ranks
// each waits. A rank that has stood in one wait for a period tells rank 0 what it waits for, again each period.  Once
// every rank, rank 0 among them, has said the same twice, nothing can come any more: a message in flight would have to
// take longer than a period.  A hint and no proof: a thread outside of MPI could still act, which cannot be seen here,
// so the job goes on.  Costs nothing unless it is asked for: waits check after a period of sleep only. Owned by the
// process.  Threads: its own state under Vcis::lock(), taken here.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/waits/vcis.hpp"

namespace mpi_shim {

class DeadlockDetector final : private p2p::IdleObserver {
 public:
  /// What a channel is called in the report: "MPI_COMM_WORLD", "a collective on ...".
  using Namer = std::function<std::string(const p2p::Channel&)>;

  /// `processes`: all processes by rank, on the first VCI.  Errors: limit_reached (the tag is taken).
  static Result<std::unique_ptr<DeadlockDetector>> start(p2p::Vcis& vcis, std::vector<p2p::Peer*> processes, int rank,
                                                         std::chrono::milliseconds period, Namer namer);
  ~DeadlockDetector();

 private:
  using Clock = std::chrono::steady_clock;
  /// The latest report of a rank.
  struct LastReport {
    std::uint64_t state = 0;
    int times = 0;  // in a row
    Clock::time_point last;
    std::string text;
    std::vector<int> waits_for;
  };

  DeadlockDetector(p2p::Vcis& vcis, std::vector<p2p::Peer*> processes, int rank, std::chrono::milliseconds period,
                   Namer namer);
  void on_idle(std::uint64_t wait, const char* what) noexcept override;
  void on_report(btl::Delivery& delivery) noexcept;
  void record(std::size_t from, std::uint64_t state, std::string text, std::vector<int> waits_for);
  void report_if_all_wait();
  [[nodiscard]] std::string cycle() const;

  p2p::Vcis& vcis_;
  const std::vector<p2p::Peer*> processes_;
  const int rank_;
  const Namer namer_;
  Clock::time_point told_;
  std::vector<LastReport> reports_;  // rank 0: by rank
  std::uint64_t reported_ = 0;       // the state of all that was reported last
};

}  // namespace mpi_shim
