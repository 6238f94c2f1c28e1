// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/host_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace opal::btl::verbs {

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

}  // namespace opal::btl::verbs
