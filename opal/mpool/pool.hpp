// SPDX-License-Identifier: Apache-2.0
// opal/mpool/pool.hpp — where memory comes from: an Allocator of whole pages.
// Opened by a hint, words joined by commas: "heap", "hugepage", "shared", "hugepage,shared", "cuda_host".
//   heap      pages of this process                 hugepage  huge pages: hugetlbfs, else transparent ones
//   shared    pages that local peers can map        hugepage,shared  both
//   cuda_host pages pinned for copies from and to GPUs
// Stack a Bucket on a pool for small blocks.  Threads: safe from any thread.
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
  /// Blocks are whole pages of this many bytes and begin on one.
  [[nodiscard]] virtual std::size_t page_size() const noexcept = 0;
};

/// Opens the pool that `hint` asks for.  A hugepage pool that has to fall back says so once, in the log.
/// Errors: invalid_argument (an unknown or contradicting word: `where` names it and the known ones, it is logged too);
/// for shared pools also no_memory, limit_reached, os; for cuda_host not_supported (no driver).
OPAL_EXPORT Result<std::unique_ptr<Pool>> open(std::string_view hint, const Config& config = {});

}  // namespace opal::mpool
