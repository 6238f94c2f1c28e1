// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/checkpoint.hpp — a rank's part in the checkpoints of its job (docs/design/checkpoint.md).
// From quiesce to resume, threads that make progress stay in wait(): the first one carries out the steps.
// Owned by the process.  Threads: any.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "mpi_shim/job/vci.hpp"

namespace mpi_shim {

class Checkpoint final : private p2p::Halt {
 public:
  /// The launcher may ask from here on.
  Checkpoint(runtime::Client& client, const Vci::All& vcis);
  /// Requires: no thread is inside of MPI.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

 private:
  using Step = runtime::CheckpointStep;

  void ask(const Step& step) noexcept;  // in a thread of libpmix
  void wait() noexcept override;
  void carry_out(const Step& step, std::unique_lock<std::mutex>& lock) noexcept;
  void begin(std::uint64_t round) noexcept;
  void resume() noexcept;
  bool drain() noexcept;
  Result<void> empty_caches() noexcept;

  runtime::Client& client_;
  const Vci::All& vcis_;
  std::uint64_t round_ = 0;  // in which the VCIs are quiesced; 0: they are not.  Of the thread that carries out
  std::mutex mutex_;
  std::condition_variable changed_;
  Step asked_;                  // guarded by mutex_
  std::uint64_t requests_ = 0;  // guarded by mutex_
  bool busy_ = false;           // a thread carries out steps; guarded by mutex_
};

}  // namespace mpi_shim
