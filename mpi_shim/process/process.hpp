// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/process.hpp — the state of the library from MPI_Init to MPI_Finalize.  At most one: current().
// Owns the Job (rank, client of the launcher, VCIs), the communicators, the keyvals and the buffer of buffered sends.
// Threads: start(), leave() and stop() by one thread; all others as MPI's thread level allows.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
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

  /// MPI_Init_thread.  `thread_level` is one of MPI_THREAD_*.  Errors: those of the configuration, of
  /// runtime::Client::open() and of Vci::open().
  static Result<void> start(int thread_level);
  /// The first part of MPI_Finalize: returns when every process of the job has called it.
  Result<void> leave();
  /// The second part, also after a failed leave(): destroys current().
  static Result<void> stop();

  static State state() noexcept;
  /// Null unless running.
  static Process* current() noexcept { return current_; }

  ~Process();

  [[nodiscard]] int thread_level() const noexcept { return thread_level_; }
  [[nodiscard]] bool is_main_thread() const noexcept { return std::this_thread::get_id() == main_thread_; }
  [[nodiscard]] Job& job() noexcept { return *job_; }
  [[nodiscard]] comm::Communicators& communicators() noexcept { return *communicators_; }

  [[nodiscard]] attribute::Keyvals<MPI_Comm>& communicator_keys() noexcept { return communicator_keys_; }
  [[nodiscard]] attribute::Keyvals<MPI_Win>& window_keys() noexcept { return window_keys_; }
  [[nodiscard]] attribute::Keyvals<MPI_Datatype>& type_keys() noexcept { return type_keys_; }

  /// The buffer of MPI_Buffer_attach, for communicators without a buffer of their own.
  [[nodiscard]] p2p::AttachedBuffer& buffer() noexcept { return *buffer_; }

  /// Ends the whole job with `status`; the launcher prints `text`.
  [[noreturn]] void abort(int status, std::string_view text) noexcept { job_->client().abort(status, text); }

 private:
  Process() = default;
  Result<void> join(int thread_level);
  /// With mpi_leak_report, prints a line for each kind of MPI object that the program has not freed: their number, and
  /// names or handles of the first ones.  Requires: no other thread is inside MPI.
  void report_leaks() const;

  static Process* current_;

  int thread_level_ = MPI_THREAD_SINGLE;
  const std::thread::id main_thread_ = std::this_thread::get_id();  // the thread that called start()
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
