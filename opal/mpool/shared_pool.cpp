// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/shared_pool.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "opal/core/system/memory_file.hpp"

namespace opal::mpool {
namespace {

/// Includes these bytes in core dumps, or excludes them.  A core dump reads all of a mapping, which would commit memory
/// for every hole of the file.
void dump(MutableBytes bytes, bool wanted) noexcept {
  (void)::madvise(bytes.data(), bytes.size(), wanted ? MADV_DODUMP : MADV_DONTDUMP);
}

}  // namespace

/// Commits the next `bytes` of the file and adds them to `blocks_`.
Result<void> SharedPool::commit_locked(std::size_t bytes) noexcept {
  // After an error the kernel frees the pages that this fallocate() has allocated.
  const std::uint64_t committed = blocks_.end();
  while (::fallocate(fd_.get(), 0, static_cast<off_t>(committed), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return memory_file_error(errno, "fallocate(shared pool)", bytes);
  }
  OPAL_TRY(blocks_.grow(bytes));
  dump(mapping_.bytes().subspan(committed, bytes), true);
  return {};
}

/// Commits memory until a block of this size fits at the end of the committed part.
Result<void> SharedPool::grow_locked(std::size_t size, std::size_t alignment) noexcept {
  const std::uint64_t begin = align_up(blocks_.end() - blocks_.free_tail(), alignment);
  const std::uint64_t room = mapping_.size();
  if (begin > room || size > room - begin) {
    return Error{Errc::limit_reached, 0, "SharedPool::allocate(virtual size used up)", size};
  }
  const std::uint64_t end = align_up(align_up(begin + size, kCacheLine), chunk_);
  return commit_locked(std::min<std::uint64_t>(end, room) - blocks_.end());
}

Result<SharedPool> SharedPool::create(const std::string& name, std::size_t virtual_size, Options options) {
  const std::size_t page = options.hugetlb ? kHugePage : base_page_size();
  constexpr std::size_t kLargest = std::size_t{1} << 46;  // half of a 47-bit address space
  if (virtual_size == 0 || virtual_size > kLargest || options.chunk == 0 || options.chunk > kLargest) {
    return Error{Errc::invalid_argument, 0, "SharedPool::create(size)", virtual_size};
  }
  const std::size_t size = align_up(virtual_size, page);
  // A power of two, as align_up() requires.
  const std::size_t chunk = std::bit_ceil(std::max(options.chunk, page));

  const unsigned flags = options.hugetlb ? MFD_HUGETLB | MFD_HUGE_2MB : 0U;
  OPAL_TRY_ASSIGN(Fd fd, create_memory_file(name.c_str(), size, flags));
  OPAL_TRY_ASSIGN(Mapping mapping, Mapping::aligned(size, kMaxAlignment, MAP_SHARED | MAP_NORESERVE, fd.get()));
  dump(mapping.bytes(), false);
  return SharedPool{std::move(fd), std::move(mapping), chunk, page};
}

Result<Mapping> SharedPool::attach(int fd, bool writable) noexcept {
  OPAL_TRY_ASSIGN(const std::size_t size, size_of_memory_file(fd));
  OPAL_TRY_ASSIGN(Mapping mapping, Mapping::shared(fd, size, 0, writable));
  dump(mapping.bytes(), false);  // the core dump of the owner contains it
  return mapping;
}

Result<SharedBlock> SharedPool::allocate(std::size_t size, std::size_t alignment) noexcept {
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    return Error{Errc::invalid_argument, 0, "SharedPool::allocate(alignment)", alignment};
  }
  const std::lock_guard lock{*mutex_};
  auto offset = blocks_.allocate(size, alignment);
  if (!offset && offset.error().code == Errc::no_space) {
    OPAL_TRY(grow_locked(std::max<std::size_t>(size, 1), alignment));
    offset = blocks_.allocate(size, alignment);
  }
  if (!offset) return offset.error();
  return SharedBlock{mapping_.data() + *offset, *offset};
}

Result<void> SharedPool::deallocate(std::byte* address) noexcept {
  const std::lock_guard lock{*mutex_};
  return blocks_.deallocate(reinterpret_cast<std::uintptr_t>(address) -
                            reinterpret_cast<std::uintptr_t>(mapping_.data()));
}

Usage SharedPool::usage() const noexcept {
  const std::lock_guard lock{*mutex_};
  return {blocks_.end(), blocks_.used(), blocks_.blocks()};
}

}  // namespace opal::mpool
