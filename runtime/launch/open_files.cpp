// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/open_files.hpp"

#include <sys/resource.h>

namespace runtime::launch {

std::uint64_t raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

}  // namespace runtime::launch
