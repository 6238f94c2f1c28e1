// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/shared_memory_pool.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>

#include "opal/core/log.hpp"

namespace opal::mpool {
namespace {

/// A pool of this kind of pages that has shown that it can commit one.
Result<SharedPool> create_checked(const Config& config, PageKind pages) {
  OPAL_TRY_ASSIGN(SharedPool pool, SharedPool::create("opal-pool", config.shared_size.bytes,
                                                      {.chunk = kSharedChunk.bytes, .pages = pages}));
  OPAL_TRY_ASSIGN(const SharedBlock probe, pool.allocate(pool.page_size()));
  OPAL_TRY(pool.deallocate(probe.address));
  pool.trim();
  return pool;
}

Result<SharedPool> create_huge(const Config& config) {
  auto hugetlb = create_checked(config, PageKind::hugetlb);
  if (hugetlb) return hugetlb;
  auto transparent = create_checked(config, PageKind::transparent);
  auto pool = transparent ? std::move(transparent) : create_checked(config, PageKind::base);
  if (pool) {
    log::once(log::Level::info, "mpool shared hugepage", "mpool",
              "no hugetlb page for shared memory ({}); shared hugepage pools use {}", to_string(hugetlb.error()),
              mpool::name(pool->pages()));
  }
  return pool;
}

}  // namespace

Result<std::unique_ptr<Pool>> SharedMemoryPool::open(const Config& config, bool huge) {
  OPAL_TRY_ASSIGN(SharedPool pool, huge ? create_huge(config) : create_checked(config, PageKind::base));
  return std::unique_ptr<Pool>{std::make_unique<SharedMemoryPool>(std::move(pool), huge)};
}

SharedMemoryPool::~SharedMemoryPool() {
  // Peers may keep the file mapped until their connection ends; its memory need not wait for that.
  (void)::fallocate(pool_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(pool_.bytes().size()));
}

Result<std::byte*> SharedMemoryPool::allocate(std::size_t size, std::size_t alignment) noexcept {
  // Whole pages: what one user gives to a peer never shares a page with another user's data.
  const std::size_t page = pool_.page_size();
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "Pool::allocate(alignment is not a power of two)", alignment};
  }
  if (size > SIZE_MAX - page) return Error{Errc::limit_reached, 0, "Pool::allocate(size)", size};
  OPAL_TRY_ASSIGN(const SharedBlock block,
                  pool_.allocate(align_up(std::max<std::size_t>(size, 1), page), std::max(alignment, page)));
  return block.address;
}

allocator::Usage SharedMemoryPool::usage() const noexcept {
  return {pool_.committed_bytes(), pool_.used_bytes(), pool_.live_blocks()};
}

}  // namespace opal::mpool
