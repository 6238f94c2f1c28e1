// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/placement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/host/messages.hpp"

namespace runtime::launch {

std::vector<std::vector<std::uint32_t>> place_ranks(Map map, unsigned ranks, const std::vector<HostSlots>& hosts) {
  std::vector<unsigned> counts(hosts.size());
  unsigned left = ranks;
  // Rounds over the hosts: whole hosts or single ranks while there are slots, then single ranks.
  for (bool any = true; any && left > 0;) {
    any = false;
    for (std::size_t i = 0; i < hosts.size() && left > 0; ++i) {
      const unsigned room = hosts[i].slots - std::min(counts[i], hosts[i].slots);
      const unsigned taken = std::min({left, room, map == Map::node ? 1U : room});
      counts[i] += taken;
      left -= taken;
      any = any || taken > 0;
    }
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % hosts.size(), --left) ++counts[i];
  std::vector<std::vector<std::uint32_t>> placed(hosts.size());
  std::uint32_t next = 0;
  if (map != Map::node) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      while (placed[i].size() < counts[i]) placed[i].push_back(next++);
    }
    return placed;
  }
  while (next < ranks) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (placed[i].size() < counts[i]) placed[i].push_back(next++);
    }
  }
  return placed;
}

std::string describe(const std::vector<HostSlots>& hosts, const std::vector<std::vector<std::uint32_t>>& placed) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string ranks = placed[i].empty() ? "no ranks" : list_numbers("rank", placed[i]);
    text += fmt::format("{} ({} slot{}): {}\n", hosts[i].name, hosts[i].slots, hosts[i].slots == 1 ? "" : "s", ranks);
  }
  return text;
}

}  // namespace runtime::launch
