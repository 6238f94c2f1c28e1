// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/process.hpp — this process as a member of an MPI job: everything between MPI_Init and MPI_Finalize.
// There is at most one, and it is the library's only mutable global.  Owns the way to the launcher, the VCIs on which
// messages go, and all communicators.
// Threads: start() and stop() by one thread; the rest as MPI's thread level says, guarded by lock(), under which no
// VCI's lock is ever asked for.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/comm/id_table.hpp"
#include "mpi_shim/base/names.hpp"
#include "mpi_shim/job/vci.hpp"
#include "mpi_shim/p2p/buffered/attached_buffer.hpp"
#include "mpi_shim/p2p/vcis.hpp"
#include "opal/allocator/guarded.hpp"
#include "opal/am/config.hpp"
#include "opal/mpool/pool.hpp"
#include "runtime/client/client.hpp"

namespace mpi_shim::attribute {
class TypeAttributes;
}

namespace mpi_shim {
class Checkpoint;
class DeadlockDetector;

class Process final {
 public:
  enum class Life : std::uint8_t { not_started, running, finished };

  /// MPI_Init_thread.  `thread_level` is one of MPI_THREAD_*.
  static Result<void> start(int thread_level);
  /// The first part of MPI_Finalize: returns when every process of the job has come here.
  Result<void> leave();
  /// The second part, also after a leave() that failed: ends current().
  static Result<void> stop();

  static Life life() noexcept;
  /// Null unless running.
  static Process* current() noexcept { return current_; }

  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(client_->rank()); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(client_->size()); }
  [[nodiscard]] int thread_level() const noexcept { return thread_level_; }
  [[nodiscard]] bool is_main_thread() const noexcept;
  [[nodiscard]] runtime::Client& client() noexcept { return *client_; }
  /// Of what belongs to no VCI: numbers and lists of communicators, memory.
  [[nodiscard]] am::Lock& lock() noexcept { return engines_->lock(); }
  /// The VCI of MPI_COMM_WORLD.
  [[nodiscard]] Vci& first_vci() noexcept { return *vcis_.front(); }
  /// How threads wait on all of them.
  [[nodiscard]] p2p::Vcis& vcis() noexcept { return *engines_; }

  /// How long a wait looks before it sleeps, and whether it has to share its core.
  [[nodiscard]] const am::Config& waits() const noexcept { return waits_; }

  [[nodiscard]] attribute::Keyvals<MPI_Win>& window_keys() noexcept { return window_keys_; }
  [[nodiscard]] attribute::TypeAttributes& type_attributes() noexcept { return *type_attributes_; }

  [[nodiscard]] comm::Communicator& world() noexcept { return *world_; }
  [[nodiscard]] comm::Communicator& self() noexcept { return *self_; }
  /// Whose error handler hears of errors that belong to no object: MPI_COMM_SELF's.  Until MPI 3.1 it was
  /// MPI_COMM_WORLD's, and programs of that time set no other: so that one stands in until MPI_COMM_SELF has its own.
  [[nodiscard]] comm::Communicator& blamed_by_default() noexcept {
    return self_->errhandler.get() == initial_errhandler_ ? *world_ : *self_;
  }
  [[nodiscard]] comm::IdTable& communicator_ids() noexcept { return ids_; }
  [[nodiscard]] attribute::Keyvals<MPI_Comm>& communicator_keys() noexcept { return communicator_keys_; }

  /// For buffered sends on communicators that have none of their own.
  [[nodiscard]] p2p::AttachedBuffer& buffer() noexcept { return *buffer_; }

  /// Where MPI_Alloc_mem takes memory from; opened at the first use.  With mpool_guard blocks have red zones, and what
  /// is not freed is named at the end.  Errors: as opal::mpool::open().
  Result<opal::allocator::Allocator*> memory();

  /// A communicator of `sides`, of which this process is a member, under a number that all of them agreed on.  No lock
  /// is held but perhaps that of the number's VCI.  Errors: no_memory.
  Result<comm::Communicator*> create_communicator(const comm::Number& number, comm::Sides sides);
  comm::Communicator& create_communicator(handle::Slot<comm::Communicator> slot, const comm::Number& number,
                                          comm::Sides sides);
  /// Ends it as soon as nothing is under way on it.  Without any VCI's lock held.
  void free_communicator(comm::Communicator& communicator) noexcept;
  /// Ends those that were freed and on which nothing is under way any more.  Without any VCI's lock held.
  void sweep_communicators() noexcept;

  /// Ends the whole job.
  [[noreturn]] void abort(int status, std::string_view text) noexcept;

 private:
  Process() = default;
  Result<void> join(int thread_level);
  void report_leaks() const;
  /// Whose channel it is, for a report.
  [[nodiscard]] std::string name_of(const p2p::Channel& channel) const;
  void flush_buffers() noexcept;

  static Process* current_;

  int thread_level_ = MPI_THREAD_SINGLE;
  const std::thread::id main_thread_ = std::this_thread::get_id();  // the one that starts MPI
  std::unique_ptr<runtime::Client> client_;
  am::Config waits_;
  std::unique_ptr<p2p::Vcis> engines_;  // of vcis_
  std::vector<std::unique_ptr<Vci>> vcis_;
  std::unique_ptr<p2p::AttachedBuffer> buffer_;
  std::unique_ptr<attribute::TypeAttributes> type_attributes_;
  bool reports_leaks_ = false;
  comm::IdTable ids_;
  attribute::Keyvals<MPI_Comm> communicator_keys_;
  attribute::Keyvals<MPI_Win> window_keys_;
  std::unique_ptr<opal::mpool::Pool> memory_;
  std::shared_ptr<const comm::Errhandler> initial_errhandler_;
  std::unique_ptr<opal::allocator::Guarded> guarded_memory_;  // over it, with mpool_guard
  std::unique_ptr<comm::Communicator> world_;
  std::unique_ptr<comm::Communicator> self_;
  std::unique_ptr<DeadlockDetector> deadlock_watch_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<handle::Ref<comm::Communicator>> others_;
  std::vector<handle::Ref<comm::Communicator>> freed_;  // with messages still under way
};

}  // namespace mpi_shim
