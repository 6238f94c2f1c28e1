// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/pinned.hpp — registers host memory with the driver, so that copies from and to it are asynchronous
// and fast, and host memory through which GPU memory is staged.  Memory of cuMemHostAlloc is not used, since it ends
// with its context; the caller's memory does not.
// Threads: one owner at a time.
#pragma once
#include <cstddef>
#include <utility>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::gpu {

/// A registration for all contexts.  The destructor ends it; the memory must stay mapped until then.
class OPAL_EXPORT Pinned {
 public:
  /// Errors: not_supported (no driver, or the program has no context yet), no_memory (the limit of locked memory is
  /// reached), os (detail CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: part of it is registered already).
  static Result<Pinned> make(MutableBytes memory) noexcept;

  Pinned() noexcept = default;
  Pinned(Pinned&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Pinned& operator=(Pinned&& other) noexcept {
    if (this != &other) {
      undo();
      memory_ = std::exchange(other.memory_, {});
    }
    return *this;
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { undo(); }

 private:
  explicit Pinned(MutableBytes memory) noexcept : memory_(memory) {}
  void undo() noexcept;

  MutableBytes memory_;
};

/// Host memory through which GPU memory is staged.  Requires at its end: no copy from or to it is in flight.
struct StagingMemory {
  Mapping pages;
  Pinned pinned{};  ///< empty if the driver does not pin them; after `pages`, so it ends before they are unmapped

  /// Logs if the memory cannot be pinned: copies are slower then.  Errors: no_memory.
  OPAL_EXPORT static Result<StagingMemory> make(std::size_t size) noexcept;
};

}  // namespace opal::gpu
