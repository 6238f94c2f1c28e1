// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/cuda_host_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "opal/core/bytes.hpp"

namespace opal::mpool {

Result<std::byte*> CudaHostPool::allocate(std::size_t size, std::size_t alignment) noexcept {
  OPAL_TRY_ASSIGN(std::byte* const block, pages_.allocate(size, alignment));
  if (const auto done = pin({block, align_up(std::max<std::size_t>(size, 1), page_size())}); !done) {
    (void)pages_.deallocate(block);
    return done.error();
  }
  return block;
}

Result<void> CudaHostPool::pin(MutableBytes block) noexcept try {
  OPAL_TRY_ASSIGN(gpu::Pinned pinned, gpu::Pinned::make(block));
  const std::lock_guard lock{mutex_};
  pinned_.emplace(block.data(), std::move(pinned));
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "Pool::allocate(bookkeeping)", block.size()};
}

Result<void> CudaHostPool::deallocate(std::byte* address) noexcept {
  gpu::Pinned pinned;
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = pinned_.find(address); found != pinned_.end()) {
      pinned = std::move(found->second);
      pinned_.erase(found);
    }
  }
  pinned = gpu::Pinned{};  // before the pages go
  return pages_.deallocate(address);
}

}  // namespace opal::mpool
