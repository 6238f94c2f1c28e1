// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/registrations/memory_limits.hpp"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace opal::btl {
namespace {

bool may_lock_anything() noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  return (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

std::uint64_t lockable_memory(bool heeds_right) noexcept {
  rlimit limit{};
  if (heeds_right && may_lock_anything()) return UINT64_MAX;
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

std::uint64_t usable_memory(const std::string& membership, const std::string& mount) {
  std::uint64_t least =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream groups{membership};
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;  // version 1
    for (std::string group = line.substr(3);; group.resize(group.rfind('/'))) {
      std::uint64_t limit = 0;  // "max" is no number
      if (std::ifstream{mount + group + "/memory.max"} >> limit) least = std::min(least, limit);
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace opal::btl
