// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/open_files.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

namespace runtime::launch {

std::uint64_t raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

std::string check_open_files(std::size_t ranks, std::size_t descriptors) {
  constexpr std::size_t kSpare = 2;  // descriptors that the start of a rank or a library needs for a short time
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  std::error_code error;
  const std::filesystem::directory_iterator open{"/proc/self/fd", error};
  if (error) return {};
  const auto needed = static_cast<std::size_t>(std::distance(begin(open), end(open))) + descriptors + kSpare;
  if (needed <= limit.rlim_cur) return {};
  return fmt::format(
      "{} ranks need about {} open files on one host, and the limit (ulimit -n) is {}; raise it, or start fewer ranks",
      ranks, needed, limit.rlim_cur);
}

std::string check_platform() {
  constexpr rlim_t kSmallestFileLimit = 1U << 20;
  constexpr rlim_t kSmallestStack = 256U << 10;
  std::error_code error;
  // With /proc of another pid namespace the end of a rank is never seen.
  const std::string self = std::filesystem::read_symlink("/proc/self", error).string();
  if (self != std::to_string(::getpid())) {
    return "/proc is not that of this pid namespace: mount it (unshare --mount-proc, mount -t proc proc /proc)";
  }
  rlimit size{};
  if (::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur < kSmallestFileLimit) {
    return fmt::format("the limit of file sizes (ulimit -f) is {} bytes; libpmix needs {}", size.rlim_cur,
                       kSmallestFileLimit);
  }
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kSmallestStack) {
    return fmt::format("the limit of stacks (ulimit -s) is {} bytes; libpmix and hwloc need {}", stack.rlim_cur,
                       kSmallestStack);
  }
  // Room for 2^20 CPUs: a mask smaller than the kernel's fails with EINVAL, which is no refusal.
  static std::array<unsigned long, 16384> cpus;  // 128 KiB: static, since the stack may be small
  if (::syscall(SYS_sched_getaffinity, 0, sizeof cpus, cpus.data()) < 0) {
    return fmt::format("sched_getaffinity is refused: {}; a filter of system calls (seccomp) must allow it",
                       std::strerror(errno));
  }
  return {};
}

}  // namespace runtime::launch
