// SPDX-License-Identifier: Apache-2.0
// opal/btl/remote_memory.hpp — an interface of modules that keep memory of their peers mapped, as smcuda does with GPU
// memory.  The layer above finds it by dynamic_cast from btl::Module.  Threads: as btl::Module.
#pragma once
#include "opal/core/result.hpp"
#include "opal/rcache/statistics.hpp"

namespace opal::btl {

class KeepsRemoteMemory {
 public:
  /// Unmaps all memory of peers; a later operation maps it again.  For checkpoints: an image cannot hold such mappings.
  /// Errors: busy (copies from or to it are in flight; detail: their number).
  virtual Result<void> release_remote_memory() noexcept = 0;

  /// The statistics of the caches of mappings, summed over all peers.
  [[nodiscard]] virtual rcache::Statistics remote_memory_statistics() const noexcept = 0;

 protected:
  ~KeepsRemoteMemory() = default;
};

}  // namespace opal::btl
