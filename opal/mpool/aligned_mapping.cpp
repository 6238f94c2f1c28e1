// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/aligned_mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "opal/core/bytes.hpp"

namespace opal::mpool {

std::size_t base_page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

Result<Mapping> map_aligned(std::size_t size, std::size_t alignment, int flags, int fd) noexcept {
  if (size == 0 || size > SIZE_MAX - alignment) return Error{Errc::invalid_argument, 0, "map_aligned(size)", size};
  // Reserve too much address space, map over an aligned part of it, give the rest back.
  void* reserved = ::mmap(nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return Error{errno == ENOMEM ? Errc::no_memory : Errc::os, errno, "mmap(reserve)", size};
  auto* const start = static_cast<std::byte*>(reserved);
  std::byte* const base =
      start + (align_up(reinterpret_cast<std::uintptr_t>(start), alignment) - reinterpret_cast<std::uintptr_t>(start));
  void* mapped = ::mmap(base, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int saved = errno;
    ::munmap(start, size + alignment);
    return Error{saved == ENOMEM ? Errc::no_memory : Errc::os, saved, "mmap(aligned)", size};
  }
  if (base != start) ::munmap(start, static_cast<std::size_t>(base - start));
  std::byte* const end = base + align_up(size, base_page_size());
  if (end != start + size + alignment) ::munmap(end, static_cast<std::size_t>(start + size + alignment - end));
  return Mapping::adopt({base, size});
}

}  // namespace opal::mpool
