// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace opal {
namespace {

Result<MutableBytes> map(std::size_t size, int protection, int flags, int fd, std::size_t offset, const char* where) {
  void* address = ::mmap(nullptr, size, protection, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return Error{errno == ENOMEM ? Errc::no_memory : Errc::os, errno, where, size};
  return MutableBytes{static_cast<std::byte*>(address), size};
}

}  // namespace

Result<Mapping> Mapping::shared(int fd, std::size_t size, std::size_t offset, bool writable) noexcept {
  OPAL_TRY_ASSIGN(const MutableBytes bytes,
                  map(size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, offset, "mmap(shared)"));
  return Mapping{bytes};
}

Result<Mapping> Mapping::anonymous(std::size_t size, bool reserve) noexcept {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (reserve ? 0 : MAP_NORESERVE);
  OPAL_TRY_ASSIGN(const MutableBytes bytes, map(size, PROT_READ | PROT_WRITE, flags, -1, 0, "mmap(anonymous)"));
  return Mapping{bytes};
}

void populate(MutableBytes range) noexcept {
#ifdef MADV_POPULATE_WRITE
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
  const auto end = align_up(reinterpret_cast<std::uintptr_t>(range.data()) + range.size(), page);
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
