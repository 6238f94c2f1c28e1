// SPDX-License-Identifier: Apache-2.0
// opal/mpool/pool.hpp — memory pools: they allocate and free blocks of memory that malloc does not have.  open()
// selects a pool of whole pages by a hint of comma-separated words:
//   heap             private pages of this process
//   hugepage         huge pages: of hugetlbfs if some are free, else transparent ones
//   shared           pages that local peers can map
//   hugepage,shared  both
//   cuda_host        pages pinned for copies from and to GPUs
// am::RegisteredPool is the pool of memory that is registered with devices.
// Bookkeeping is in private memory, because the managed bytes may be shared with other processes.
// Threads: safe from any thread, but for a RegisteredPool.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/mpool/config.hpp"

namespace opal::mpool {

/// The present counts of a pool.
struct Usage {
  std::size_t managed = 0;  ///< bytes obtained from the system
  std::size_t used = 0;     ///< bytes in live blocks, rounding included
  std::size_t blocks = 0;   ///< live blocks
};

class Pool {
 public:
  Pool() noexcept = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  virtual ~Pool() = default;

  /// Allocates at least `size` bytes (0 counts as 1) at a multiple of `alignment`, a power of two.  The contents are
  /// unspecified.  The block is valid until deallocate() or the end of the pool.  Pools of pages allocate whole pages.
  /// Errors: invalid_argument (alignment), no_space, no_memory, limit_reached, not_supported (a shared pool in a forked
  /// child of the process that opened it).
  virtual Result<std::byte*> allocate(std::size_t size, std::size_t alignment = 1) noexcept = 0;

  /// Frees a block that allocate() returned.  Errors: invalid_argument for a block freed twice, an address inside a
  /// block, and an address that is not of this pool; these change nothing.
  virtual Result<void> deallocate(std::byte* address) noexcept = 0;

  [[nodiscard]] virtual Usage usage() const noexcept = 0;
};

/// Opens the pool that `hint` selects.  A hugepage pool that falls back to transparent pages logs this once (info).
/// Errors: invalid_argument (unknown or contradicting words, named in `where` and in the log);
/// for shared pools also no_memory, limit_reached, os; for cuda_host not_supported (no driver).
OPAL_EXPORT Result<std::unique_ptr<Pool>> open(std::string_view hint, const Config& config = {});

}  // namespace opal::mpool
