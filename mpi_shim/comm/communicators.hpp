// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/communicators.hpp — all communicators of this process, and the table of their numbers (IdTable).
// Owned by the Process.  Borrows the Job.  Threads: any, guarded by Job::lock(); no VCI's lock is taken under it.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/job/job.hpp"

namespace mpi_shim::comm {

/// The result of creating a communicator.  MPI_SUCCESS with a null `comm`: this process is not a member of it.
struct Made {
  int error = MPI_SUCCESS;
  Communicator* comm = nullptr;
};

/// The number of a communicator and its VCI.
struct Number {
  std::uint32_t id = 0;
  unsigned vci = 0;  ///< the number of the VCI that carries its messages, in each process
};

/// The communicator numbers that this process uses: 0 for MPI_COMM_WORLD, 1 for MPI_COMM_SELF, others from 2 on.  A
/// number stays reserved while the processes of a new communicator agree on it, so threads that create communicators
/// concurrently get different ones.  Threads: under Job::lock().
class IdTable {
 public:
  /// Reserves the lowest free number that is at least `from`.
  std::uint32_t reserve_free(std::uint32_t from) {
    for (std::uint32_t id = from;; ++id) {
      if (reserve(id)) return id;
    }
  }
  /// Reserves `id`.  False: it is already reserved.
  bool reserve(std::uint32_t id) {
    if (used_.size() <= id) used_.resize(id + std::size_t{1});
    if (used_[id]) return false;
    used_[id] = true;
    return true;
  }
  void release(std::uint32_t id) noexcept { used_[id] = false; }

 private:
  std::vector<bool> used_;
};

class Communicators final {
 public:
  /// Makes MPI_COMM_WORLD and MPI_COMM_SELF.
  explicit Communicators(Job& job);
  ~Communicators();

  [[nodiscard]] Job& job() noexcept { return job_; }
  [[nodiscard]] Communicator& world() noexcept { return *world_; }
  [[nodiscard]] Communicator& self() noexcept { return *self_; }
  /// The communicator whose error handler gets errors that belong to no object: MPI_COMM_SELF, once the program has set
  /// a handler there.  Before that MPI_COMM_WORLD, as in MPI 3.1, since programs written for it set only that handler.
  [[nodiscard]] Communicator& default_for_errors() noexcept {
    return self_->errhandler.get().get() == &initial_errhandler() ? *world_ : *self_;
  }
  /// The error handler of a communicator, also of a freed one until sweep() ends it.  Null: there is none.
  [[nodiscard]] ErrhandlerRef errhandler_of(MPI_Comm handle) const;
  [[nodiscard]] IdTable& ids() noexcept { return ids_; }

  /// Makes a communicator of `sides` in `slot`; this process is a member.  `number`: what all members have agreed on.
  /// Requires: the caller holds no lock, or only that of VCI number.vci.  Valid until sweep() ends it after free().
  Communicator& create(handle::Slot<Communicator> slot, const Number& number, Sides sides);
  /// Retires its handle, and ends the communicator when nothing is in flight on it: now, or in a later sweep().
  /// Requires: the caller holds no VCI's lock.
  void free(Communicator& communicator) noexcept;
  /// Ends freed communicators on which nothing is in flight any more.  Requires: the caller holds no VCI's lock.
  void sweep() noexcept;

  /// Waits until the buffered sends of every communicator are sent.
  void flush_buffers() noexcept;
  /// Describes the communicator of a channel for a report: its name, or its size.
  [[nodiscard]] std::string describe(const p2p::Channel& channel) const;

 private:
  /// As MPI_ERRORS_ARE_FATAL, but another object: it tells whether the program has set a handler.
  static Errhandler& initial_errhandler() {
    static Errhandler initial{MPI_ERRORS_ARE_FATAL, Errhandler::Kind::fatal};
    return initial;
  }

  Job& job_;
  IdTable ids_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> self_;
  std::vector<handle::Ref<Communicator>> others_;
  std::mutex sweeping_;                           // one sweep() at a time: it holds references without Job::lock()
  std::vector<handle::Ref<Communicator>> freed_;  // freed by the program; something may still be in flight on them
};

}  // namespace mpi_shim::comm
