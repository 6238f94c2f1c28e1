// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace opal {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Error memory_file_error(int error, const char* where, std::uint64_t detail) noexcept {
  switch (error) {
    case ENOMEM: return {Errc::no_memory, error, where, detail};
    case ENOSPC: return {Errc::no_space, error, where, detail};
    case EMFILE:
    case ENFILE: return {Errc::limit_reached, error, where, detail};
    default: return {Errc::os, error, where, detail};
  }
}

Result<Fd> create_memory_file(const char* name, std::size_t size, unsigned flags) noexcept {
  Fd fd{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags)};
  if (!fd) return memory_file_error(errno, "memfd_create", size);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return memory_file_error(errno, "ftruncate(memfd)", size);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) return memory_file_error(errno, "fcntl(F_ADD_SEALS)", size);
  return fd;
}

Result<std::size_t> size_of_memory_file(int fd) noexcept {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Error{Errc::protocol, errno, "shared memory: not a sealable memory file", 0};
  if ((seals & kSizeSeals) != kSizeSeals) {
    return Error{Errc::protocol, 0, "shared memory: the file's size is not sealed", static_cast<std::uint64_t>(seals)};
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return memory_file_error(errno, "fstat(memfd)", 0);
  // Whole pages: so a reader of aligned fixed-size records needs to check only the begin of a record.
  if (status.st_size <= 0 || status.st_size % 4096 != 0) {
    return Error{Errc::protocol, 0, "shared memory: the file is not of whole pages",
                 static_cast<std::uint64_t>(status.st_size)};
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace opal
