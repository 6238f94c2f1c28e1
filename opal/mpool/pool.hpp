// SPDX-License-Identifier: Apache-2.0
// opal/mpool/pool.hpp — memory pools: Allocators of whole pages.  open() selects one by a hint of comma-separated
// words:
//   heap             private pages of this process
//   hugepage         huge pages: of hugetlbfs if some are free, else transparent ones
//   shared           pages that local peers can map
//   hugepage,shared  both
//   cuda_host        pages pinned for copies from and to GPUs
// For small blocks, stack a Bucket on a pool.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "opal/allocator/allocator.hpp"
#include "opal/core/export.hpp"
#include "opal/mpool/config.hpp"

namespace opal::mpool {

class Pool : public allocator::Allocator {
 public:
  /// Bytes of a page of this pool; address and size of each block are multiples of it.
  [[nodiscard]] virtual std::size_t page_size() const noexcept = 0;
};

/// Opens the pool that `hint` selects.  A hugepage pool that falls back to transparent pages logs this once (info).
/// Errors: invalid_argument (unknown or contradicting words, named in `where` and in the log);
/// for shared pools also no_memory, limit_reached, os; for cuda_host not_supported (no driver).
OPAL_EXPORT Result<std::unique_ptr<Pool>> open(std::string_view hint, const Config& config = {});

}  // namespace opal::mpool
