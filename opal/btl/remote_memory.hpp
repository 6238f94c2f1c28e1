// SPDX-License-Identifier: Apache-2.0
// opal/btl/remote_memory.hpp — what a module implements beside btl::Module when it keeps memory of its peers mapped, as
// smcuda does with memory of their GPUs.  Found by dynamic_cast; a module without it keeps none.
// Threads: as btl::Module.
#pragma once
#include "opal/core/result.hpp"
#include "opal/rcache/statistics.hpp"

namespace opal::btl {

class KeepsRemoteMemory {
 public:
  /// Unmaps all of it; what is needed later is mapped again.  For checkpoints: no image holds such mappings.
  /// Errors: busy (copies from or to it are in flight; detail: how many).
  virtual Result<void> release_remote_memory() noexcept = 0;

  /// What the caches of it have counted, over all peers, and hold now.
  [[nodiscard]] virtual rcache::Statistics remote_memory_statistics() const noexcept = 0;

 protected:
  ~KeepsRemoteMemory() = default;
};

}  // namespace opal::btl
