// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "opal/btl/peer_id.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/random.hpp"

namespace opal::btl {

Result<std::uint64_t> namespace_inode(const char* path) {
  struct stat status {};
  if (::stat(path, &status) != 0) return Error{Errc::os, errno, "stat(/proc/self/ns)"};
  return std::uint64_t{status.st_ino};
}

Result<std::uint64_t> identify_host(const char* path) {
  const Fd file{::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)};
  std::array<char, 36> boot{};
  if (!file || ::read(file.get(), boot.data(), boot.size()) != static_cast<ssize_t>(boot.size())) {
    return Error{Errc::os, errno, "read(/proc/sys/kernel/random/boot_id)"};
  }
  OPAL_TRY_ASSIGN(const std::uint64_t inode, namespace_inode(path));
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&](ByteSpan bytes) {
    for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3;
  };
  mix(std::as_bytes(std::span{boot}));
  mix(bytes_of(inode));
  return hash | 1;
}

std::uint64_t host_number(const char* path) noexcept {
  const auto known = identify_host(path);
  return known ? *known : random_u64() | 1;
}

}  // namespace opal::btl
