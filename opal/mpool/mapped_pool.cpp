// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/mapped_pool.hpp"

#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "opal/core/bytes.hpp"
#include "opal/core/log.hpp"

namespace opal::mpool {
namespace {

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

Result<Mapping> map_huge(std::size_t size, std::size_t alignment) noexcept {
  // Without MAP_NORESERVE mmap() reserves the pages: too few are an error here, not a SIGBUS at the first access.
  auto mapping = Mapping::aligned(size, alignment, kPrivate | MAP_HUGETLB | MAP_HUGE_2MB);
  if (mapping) return mapping;
  log::once(log::Level::info, "mpool hugepage", "mpool",
            "no hugetlb page is free ({}); hugepage pools use transparent huge pages", to_string(mapping.error()));
  mapping = Mapping::aligned(size, alignment, kPrivate);
  if (mapping) (void)::madvise(mapping->data(), size, MADV_HUGEPAGE);  // if it fails, small pages are used
  return mapping;
}

}  // namespace

std::size_t MappedPool::page_size() const noexcept { return kind_ == Kind::hugepage ? kHugePage : base_page_size(); }

Result<std::byte*> MappedPool::allocate(std::size_t size, std::size_t alignment) noexcept try {
  constexpr std::size_t kLargest = std::size_t{1} << 47;
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "Pool::allocate(alignment is not a power of two)", alignment};
  }
  if (size > kLargest || alignment > kLargest) return Error{Errc::no_memory, 0, "Pool::allocate(size)", size};
  const std::size_t rounded = align_up(std::max<std::size_t>(size, 1), page_size());
  alignment = std::max(alignment, page_size());
  OPAL_TRY_ASSIGN(Mapping pages, kind_ == Kind::hugepage         ? map_huge(rounded, alignment)
                                 : alignment <= base_page_size() ? Mapping::anonymous(rounded)
                                                                 : Mapping::aligned(rounded, alignment, kPrivate));
  Block block{std::move(pages)};
  if (kind_ == Kind::cuda_host) {
    OPAL_TRY_ASSIGN(block.pinned, gpu::Pinned::make(block.pages.bytes()));
  }
  std::byte* const address = block.pages.data();
  const std::lock_guard lock{mutex_};
  live_.emplace(address, std::move(block));
  bytes_ += rounded;
  return address;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "Pool::allocate(bookkeeping)", size};
}

Result<void> MappedPool::deallocate(std::byte* address) noexcept {
  decltype(live_)::node_type gone;  // unmapped after the lock is released
  const std::lock_guard lock{mutex_};
  gone = live_.extract(address);
  if (gone.empty()) {
    return Error{Errc::invalid_argument, 0, "Pool::deallocate(not a live block: foreign, or freed twice?)",
                 reinterpret_cast<std::uintptr_t>(address)};
  }
  bytes_ -= gone.mapped().pages.size();
  return {};
}

Usage MappedPool::usage() const noexcept {
  const std::lock_guard lock{mutex_};
  return {bytes_, bytes_, live_.size()};
}

}  // namespace opal::mpool
