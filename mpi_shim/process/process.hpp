// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/process.hpp — everything between MPI_Init and MPI_Finalize.  At most one exists; it is the only
// mutable global of the library.  Owns the Job (rank, launcher, VCIs) and the communicators.
// Threads: start(), leave() and stop() by one thread; the rest as MPI's thread level says.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/job/job.hpp"
#include "mpi_shim/p2p/buffered/attached_buffer.hpp"

namespace mpi_shim {
class Checkpoint;
class DeadlockDetector;

class Process final {
 public:
  enum class State : std::uint8_t { not_started, running, finished };

  /// MPI_Init_thread.  `thread_level` is one of MPI_THREAD_*.
  static Result<void> start(int thread_level);
  /// The first part of MPI_Finalize: returns when every process of the job has called it.
  Result<void> leave();
  /// The second part, also after a leave() that failed: ends current().
  static Result<void> stop();

  static State state() noexcept;
  /// Null unless running.
  static Process* current() noexcept { return current_; }

  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] int thread_level() const noexcept { return thread_level_; }
  [[nodiscard]] bool is_main_thread() const noexcept { return std::this_thread::get_id() == main_thread_; }
  [[nodiscard]] Job& job() noexcept { return *job_; }
  [[nodiscard]] comm::Communicators& communicators() noexcept { return *communicators_; }

  [[nodiscard]] attribute::Keyvals<MPI_Comm>& communicator_keys() noexcept { return communicator_keys_; }
  [[nodiscard]] attribute::Keyvals<MPI_Win>& window_keys() noexcept { return window_keys_; }
  [[nodiscard]] attribute::Keyvals<MPI_Datatype>& type_keys() noexcept { return type_keys_; }

  /// For buffered sends on communicators that have no buffer of their own.
  [[nodiscard]] p2p::AttachedBuffer& buffer() noexcept { return *buffer_; }

  /// Ends the whole job.
  [[noreturn]] void abort(int status, std::string_view text) noexcept { job_->client().abort(status, text); }

 private:
  Process() = default;
  Result<void> join(int thread_level);
  void report_leaks() const;
  /// One line for each kind of object that still has handles: how many, and the names or handles of the first; empty
  /// when there is nothing to say.  Objects of the library's own are none of the program's.  While no other thread is
  /// inside MPI.
  static std::string describe_leaks();

  static Process* current_;

  int thread_level_ = MPI_THREAD_SINGLE;
  const std::thread::id main_thread_ = std::this_thread::get_id();  // the one that starts MPI
  bool reports_leaks_ = false;
  attribute::Keyvals<MPI_Comm> communicator_keys_;
  attribute::Keyvals<MPI_Win> window_keys_;
  attribute::Keyvals<MPI_Datatype> type_keys_;
  std::optional<Job> job_;
  std::optional<p2p::AttachedBuffer> buffer_;
  std::optional<comm::Communicators> communicators_;
  std::unique_ptr<DeadlockDetector> deadlock_detector_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

}  // namespace mpi_shim
