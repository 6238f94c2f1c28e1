// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/tree/process_map.hpp"

#include <pmix_common.h>

#include <algorithm>

#include "runtime/oob/wire.hpp"
#include "runtime/packing.hpp"
#include "runtime/pmix/cluster.hpp"

namespace runtime::daemon {

using overlay::IdSet;
using overlay::Range;

ProcessMap::ProcessMap(const std::vector<pmix::HostRanks>& hosts) {
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    living_.push_back(static_cast<std::uint32_t>(hosts[host].ranks.size()));
    for (const std::uint32_t rank : hosts[host].ranks) {
      if (rank >= host_of_.size()) host_of_.resize(rank + 1);
      host_of_[rank] = host;
    }
  }
}

bool ProcessMap::valid(const std::vector<pmix::HostRanks>& hosts) {
  std::vector<std::uint32_t> all;
  for (const pmix::HostRanks& host : hosts) {
    if (!std::ranges::is_sorted(host.ranks)) return false;
    all.insert(all.end(), host.ranks.begin(), host.ranks.end());
  }
  std::ranges::sort(all);
  std::uint32_t next = 0;
  return std::ranges::all_of(all, [&](std::uint32_t rank) { return rank == next++; });
}

void ProcessMap::end(const IdSet& ranks) {
  if (!ranks.valid(this->ranks())) return;
  IdSet news = ranks;
  news.remove(ended_);
  ended_.add(news);
  for (const Range& range : news.ranges()) {
    for (std::uint32_t rank = range.begin; rank != range.end; ++rank) {
      if (--living_[host_of_[rank]] == 0) deserted_.add(host_of_[rank]);
    }
  }
}

IdSet ProcessMap::absent(const std::string& name) const {
  if (ended_.empty()) return {};
  const auto fence = unpack<pmix::FenceName>(oob::as_bytes(name));
  if (!fence) return {};
  if (std::ranges::find(fence->ranks, PMIX_RANK_WILDCARD) != fence->ranks.end()) return deserted_;
  IdSet with_ended;
  IdSet with_living;
  for (const std::uint32_t rank : fence->ranks) {
    if (rank < host_of_.size()) (ended_.contains(rank) ? with_ended : with_living).add(host_of_[rank]);
  }
  with_ended.remove(with_living);
  return with_ended;
}

}  // namespace runtime::daemon
