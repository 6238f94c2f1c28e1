// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/mapped_pools.hpp"

#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "opal/core/bytes.hpp"
#include "opal/core/log.hpp"
#include "opal/mpool/aligned_mapping.hpp"

namespace opal::mpool {

Result<std::byte*> MappedPool::allocate(std::size_t size, std::size_t alignment) noexcept try {
  constexpr std::size_t kLargest = std::size_t{1} << 47;
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "Pool::allocate(alignment is not a power of two)", alignment};
  }
  if (size > kLargest || alignment > kLargest) return Error{Errc::no_memory, 0, "Pool::allocate(size)", size};
  const std::size_t rounded = align_up(std::max<std::size_t>(size, 1), page_size());
  OPAL_TRY_ASSIGN(Mapping mapping, map(rounded, std::max(alignment, page_size())));
  std::byte* const address = mapping.data();
  const std::lock_guard lock{mutex_};
  live_.emplace(address, std::move(mapping));
  bytes_ += rounded;
  return address;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "Pool::allocate(bookkeeping)", size};
}

Result<void> MappedPool::deallocate(std::byte* address) noexcept {
  Mapping gone;  // unmapped after the lock is released
  const std::lock_guard lock{mutex_};
  const auto found = live_.find(address);
  if (found == live_.end()) {
    return Error{Errc::invalid_argument, 0, "Pool::deallocate(not a live block: foreign, or freed twice?)",
                 reinterpret_cast<std::uintptr_t>(address)};
  }
  gone = std::move(found->second);
  bytes_ -= gone.size();
  live_.erase(found);
  return {};
}

allocator::Usage MappedPool::usage() const noexcept {
  const std::lock_guard lock{mutex_};
  return {bytes_, bytes_, live_.size()};
}

std::size_t HeapPool::page_size() const noexcept { return base_page_size(); }

Result<Mapping> HeapPool::map(std::size_t size, std::size_t alignment) noexcept {
  if (alignment <= base_page_size()) return Mapping::anonymous(size);
  return map_aligned(size, alignment, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

HugePool::HugePool() {
  if (const auto hugetlb = map_hugetlb(kHugePage, kHugePage)) {
    pages_ = PageKind::hugetlb;
    log::once(log::Level::info, "mpool hugepage", "mpool", "huge pages come from hugetlbfs");
    return;
  } else {
    const auto transparent = map_transparent(kHugePage, kHugePage);
    pages_ = transparent ? PageKind::transparent : PageKind::base;
    log::once(log::Level::info, "mpool hugepage", "mpool", "no hugetlb page is free ({}); hugepage pools use {}",
              to_string(hugetlb.error()), mpool::name(pages_));
  }
}

PageKind HugePool::pages() const noexcept { return pages_; }

Result<Mapping> HugePool::map_hugetlb(std::size_t size, std::size_t alignment) noexcept {
  // Reserved at mmap() (no MAP_NORESERVE): too few pages are an error here and no SIGBUS at the first touch.
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB;
  return map_aligned(size, alignment, flags, -1);
}

Result<Mapping> HugePool::map_transparent(std::size_t size, std::size_t alignment) noexcept {
  OPAL_TRY_ASSIGN(Mapping mapping, map_aligned(size, alignment, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  if (::madvise(mapping.data(), size, MADV_HUGEPAGE) != 0) {
    return Error{Errc::not_supported, errno, "madvise(MADV_HUGEPAGE)", size};
  }
  return mapping;
}

Result<Mapping> HugePool::map(std::size_t size, std::size_t alignment) noexcept {
  if (pages_ == PageKind::hugetlb) {
    auto mapping = map_hugetlb(size, alignment);
    if (mapping) return mapping;
    // The reserve ran out since the pool was opened: the next best kind serves this block.
    log::once(log::Level::info, "mpool hugetlb used up", "mpool", "hugetlb pages are used up ({}), falling back",
              to_string(mapping.error()));
  }
  if (pages_ != PageKind::base) {
    if (auto mapping = map_transparent(size, alignment)) return mapping;
  }
  return map_aligned(size, alignment, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

}  // namespace opal::mpool
