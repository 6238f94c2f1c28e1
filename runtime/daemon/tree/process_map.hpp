// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/process_map.hpp — records the host of each rank and which ranks have ended.  From both follows
// which hosts a fence need not wait for.  Threads: the loop's thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/overlay/id_set.hpp"
#include "runtime/pmix/job_data.hpp"

namespace runtime::daemon {

class ProcessMap {
 public:
  ProcessMap() = default;
  /// Requires: valid(hosts).
  explicit ProcessMap(const std::vector<pmix::HostRanks>& hosts);

  /// True when the ranks 0, 1, 2, ... are each on exactly one host and the list of each host ascends.
  [[nodiscard]] static bool valid(const std::vector<pmix::HostRanks>& hosts);

  /// The host of `rank`; 0 for a rank that does not exist.
  [[nodiscard]] std::uint32_t host_of(unsigned rank) const { return rank < host_of_.size() ? host_of_[rank] : 0; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(host_of_.size()); }

  /// Marks `ranks` as ended.  Ranks marked before are ignored, and so is a set that names no valid ranks.
  void end(const overlay::IdSet& ranks);

  /// The hosts whose participants in the fence `name` (a packed pmix::FenceName) have all ended.
  [[nodiscard]] overlay::IdSet absent(const std::string& name) const;

 private:
  std::vector<std::uint32_t> host_of_;  // by rank
  std::vector<std::uint32_t> living_;   // by host: how many of its ranks have not ended
  overlay::IdSet ended_;                // ranks
  overlay::IdSet deserted_;             // hosts without living ranks
};

}  // namespace runtime::daemon
