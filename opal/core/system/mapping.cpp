// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace opal {
namespace {

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

Result<MutableBytes> map(std::size_t size, int protection, int flags, int fd, std::size_t offset, const char* where) {
  void* address = ::mmap(nullptr, size, protection, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return Error{errno == ENOMEM ? Errc::no_memory : Errc::os, errno, where, size};
  return MutableBytes{static_cast<std::byte*>(address), size};
}

}  // namespace

std::size_t base_page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

Result<Mapping> Mapping::shared(int fd, std::size_t size, std::size_t offset, bool writable) noexcept {
  OPAL_TRY_ASSIGN(const MutableBytes bytes,
                  map(size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, offset, "mmap(shared)"));
  return Mapping{bytes};
}

Result<Mapping> Mapping::anonymous(std::size_t size, bool reserve) noexcept {
  const int flags = kPrivate | (reserve ? 0 : MAP_NORESERVE);
  OPAL_TRY_ASSIGN(const MutableBytes bytes, map(size, PROT_READ | PROT_WRITE, flags, -1, 0, "mmap(anonymous)"));
  return Mapping{bytes};
}

Result<Mapping> Mapping::aligned(std::size_t size, std::size_t alignment, int flags, int fd) noexcept {
  if (size == 0 || size > SIZE_MAX - alignment) return Error{Errc::invalid_argument, 0, "Mapping::aligned(size)", size};
  // Reserve size + alignment bytes of address space, map over an aligned part of them, unmap the other parts.
  OPAL_TRY_ASSIGN(const MutableBytes reserved,
                  map(size + alignment, PROT_NONE, kPrivate | MAP_NORESERVE, -1, 0, "mmap(reserve)"));
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(reserved.data()) & (alignment - 1);
  const MutableBytes bytes = reserved.subspan(before, size);
  if (::mmap(bytes.data(), size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(reserved.data(), reserved.size());
    return Error{error == ENOMEM ? Errc::no_memory : Errc::os, error, "mmap(aligned)", size};
  }
  if (before != 0) ::munmap(reserved.data(), before);
  const std::size_t end = before + align_up(size, base_page_size());
  if (end != reserved.size()) ::munmap(reserved.data() + end, reserved.size() - end);
  return Mapping{bytes};
}

void populate(MutableBytes range) noexcept {
#ifdef MADV_POPULATE_WRITE
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) & ~(base_page_size() - 1);
  const auto end = align_up(reinterpret_cast<std::uintptr_t>(range.data()) + range.size(), base_page_size());
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#else
  (void)range;
#endif
}

void Mapping::unmap() noexcept {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

}  // namespace opal
