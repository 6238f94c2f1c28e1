// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/staging_memory.hpp — host memory through which GPU memory is staged: pinned where the driver allows
// it, and never given back when a copy from or to it did not end. Threads: a resource, one owner at a time; no copy is
// in flight at its end.
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

  /// Makes `size` bytes, unless there are some.  That they cannot be pinned is said in the log: slower, not wrong.
  /// Errors: no_memory.
  Result<void> make(std::size_t size) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] bool empty() const noexcept { return memory_.size() == 0; }

  /// A copy from or to it was given up (Copier::finish()): it is the device's for the life of the process.
  void lose() noexcept { lost_ = true; }
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  Mapping memory_;
  Pinned pinned_;
  bool lost_ = false;
};

}  // namespace opal::gpu
