// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "opal/btl/peer_id.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/random.hpp"

namespace opal::btl {

Result<std::array<char, 36>> boot_id() {
  const Fd file{::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)};
  std::array<char, 36> text{};
  if (file && ::read(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return text;
  return Error{Errc::os, errno, "read(/proc/sys/kernel/random/boot_id)"};
}

Result<std::uint64_t> namespace_inode(const char* path) {
  struct stat status {};
  if (::stat(path, &status) != 0) return Error{Errc::os, errno, "stat(/proc/self/ns)"};
  return std::uint64_t{status.st_ino};
}

std::uint64_t host_number(const char* path) noexcept {
  const auto boot = boot_id();
  const auto inode = namespace_inode(path);
  if (!boot || !inode) return random_u64() | 1;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&](ByteSpan bytes) {
    for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3;
  };
  mix(std::as_bytes(std::span{*boot}));
  mix(bytes_of(*inode));
  return hash | 1;
}

}  // namespace opal::btl
