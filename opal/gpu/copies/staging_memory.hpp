// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/staging_memory.hpp — host memory through which GPU memory is staged, pinned if the driver allows it.
// The destructor unmaps it, unless a copy from or to it never ended (lose()).  No other copy may be in flight then.
// Threads: one owner at a time.
#pragma once
#include <cstddef>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/gpu/copies/pinned.hpp"

namespace opal::gpu {

class OPAL_EXPORT StagingMemory {
 public:
  StagingMemory() noexcept = default;
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;
  ~StagingMemory();

  /// Allocates `size` bytes, unless memory exists already.  Logs if the memory cannot be pinned, and uses it
  /// nevertheless: copies are slower then.  Errors: no_memory.
  Result<void> make(std::size_t size) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] bool empty() const noexcept { return memory_.size() == 0; }

  /// Keeps the memory mapped until the process ends, since a copy from or to it timed out (Copier::finish()).
  void lose() noexcept { lost_ = true; }
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  Mapping memory_;
  Pinned pinned_;
  bool lost_ = false;
};

}  // namespace opal::gpu
