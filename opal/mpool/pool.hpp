// SPDX-License-Identifier: Apache-2.0
// opal/mpool/pool.hpp — where memory comes from: an Allocator of whole pages whose properties are known.
// Opened by a hint, words joined by commas: "heap", "hugepage", "shared", "hugepage,shared", "cuda_host".
//   heap      pages of this process                 hugepage  huge pages: hugetlbfs, else transparent ones
//   shared    pages that local peers can map        hugepage,shared  both
//   cuda_host pages pinned for copies from and to GPUs
// Stack a Basic or Bucket allocator on a pool for small blocks.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "opal/allocator/allocator.hpp"
#include "opal/core/export.hpp"
#include "opal/mpool/config.hpp"
#include "opal/mpool/page_kind.hpp"

namespace opal::mpool {

class Pool : public allocator::Allocator {
 public:
  /// The kind of pool: "heap", "hugepage", "shared", "hugepage,shared" or "cuda_host".  Static lifetime.
  [[nodiscard]] virtual const char* name() const noexcept = 0;

  /// Blocks are whole pages of this many bytes and begin on one.
  [[nodiscard]] virtual std::size_t page_size() const noexcept = 0;

  /// What backs the pages: which kind a "hugepage" pool really got.
  [[nodiscard]] virtual PageKind pages() const noexcept = 0;

  /// A descriptor that a local peer can map to see this pool's memory, owned by the pool; -1: the memory is private.
  [[nodiscard]] virtual int fd() const noexcept { return -1; }

  /// Where `address` is in the file behind fd(); nothing for foreign addresses and private pools.
  [[nodiscard]] virtual std::optional<std::uint64_t> offset_of(const void* address) const noexcept {
    (void)address;
    return std::nullopt;
  }
};

/// Opens the pool that `hint` asks for.  A hugepage pool that has to fall back says so once, in the log.
/// Errors: invalid_argument (an unknown or contradicting word: `where` names it and the known ones, it is logged too);
/// for shared pools also no_memory, limit_reached, os; for cuda_host not_supported (no driver).
OPAL_EXPORT Result<std::unique_ptr<Pool>> open(std::string_view hint, const Config& config = {});

}  // namespace opal::mpool
