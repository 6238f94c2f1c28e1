// SPDX-License-Identifier: Apache-2.0
// mpi_shim/job/job.hpp — this process as a member of its MPI job: its rank, the client of the launcher, the VCIs, and
// the memory pool of MPI_Alloc_mem.  Owned by the Process; owns the client, the VCIs and the pool.
// Threads: any; memory() takes lock().
#pragma once
#include <memory>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/job/vci.hpp"
#include "mpi_shim/p2p/waits/vcis.hpp"
#include "opal/am/config.hpp"
#include "opal/mpool/pool.hpp"
#include "runtime/client/client.hpp"

namespace mpi_shim {

class Job final {
 public:
  Job(std::unique_ptr<runtime::Client> client, const am::Config& waits, am::ThreadLevel level)
      : client_(std::move(client)), waits_(waits), engines_(waits, level) {}

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(client_->rank()); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(client_->size()); }
  [[nodiscard]] runtime::Client& client() noexcept { return *client_; }
  /// The configuration of waits: how long a wait polls before it sleeps, how many ranks share a core.
  [[nodiscard]] const am::Config& waits() const noexcept { return waits_; }

  /// Guards what belongs to no VCI.  A thread that holds it takes no VCI's lock.
  [[nodiscard]] am::Lock& lock() noexcept { return engines_.lock(); }
  /// The Engines of all VCIs; threads wait through it.
  [[nodiscard]] p2p::Vcis& vcis() noexcept { return engines_; }
  /// The VCIs by number.  The first one carries MPI_COMM_WORLD and MPI_COMM_SELF.
  [[nodiscard]] Vci::All& all_vcis() noexcept { return vcis_; }
  [[nodiscard]] Vci& first_vci() noexcept { return *vcis_.front(); }

  /// The pool of MPI_Alloc_mem, opened at the first use; valid as long as the Job.  Errors: as
  /// opal::mpool::open().
  Result<opal::mpool::Pool*> memory();
  /// The blocks and bytes in use of memory(); zeros before the first use.
  [[nodiscard]] opal::mpool::Usage memory_usage() const;

 private:
  std::unique_ptr<runtime::Client> client_;
  const am::Config waits_;
  std::unique_ptr<opal::mpool::Pool> memory_;
  p2p::Vcis engines_;  // of vcis_
  Vci::All vcis_;
};

}  // namespace mpi_shim
