// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/checkpoint.hpp — the part of a rank in the checkpoints of its job (docs/design/checkpoint.md).
// The launcher requests steps: quiesce, checkpoint, resume.  From the first request to resume, all threads that call
// Engine::progress() block in wait(); the first of them executes the steps.
// Owned by the Process; borrows the client and the VCIs.  Threads: any.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "mpi_shim/job/vci.hpp"

namespace mpi_shim {

class Checkpoint final : private p2p::Halt {
 public:
  /// Begins to accept requests of the launcher.
  Checkpoint(runtime::Client& client, const Vci::All& vcis);
  /// Requires: no other thread is inside of MPI.
  ~Checkpoint();

 private:
  using Step = runtime::CheckpointStep;

  /// Records a request of the launcher and sets or clears the Halt of all Engines.  Called by a thread of libpmix.
  void ask(const Step& step) noexcept;
  void wait() noexcept override;
  /// Executes `step` and answers it; returns when the next request has come.  `lock` holds mutex_, released meanwhile.
  void carry_out(const Step& step, std::unique_lock<std::mutex>& lock) noexcept;
  void begin(std::uint64_t round) noexcept;
  void resume() noexcept;
  bool drain() noexcept;
  Result<void> empty_caches() noexcept;

  runtime::Client& client_;
  const Vci::All& vcis_;
  std::uint64_t round_ = 0;  // checkpoint round for which the VCIs are quiesced; 0: none.  Used by the executing thread
  std::mutex mutex_;
  std::condition_variable changed_;  // a request has come, or busy_ has become false
  Step asked_;                       // the latest request; guarded by mutex_
  std::uint64_t requests_ = 0;       // number of requests so far; guarded by mutex_
  bool busy_ = false;                // a thread executes steps; guarded by mutex_
};

}  // namespace mpi_shim
