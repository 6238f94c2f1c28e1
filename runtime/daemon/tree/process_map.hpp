// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/process_map.hpp — where each rank of the job is, and which have ended: so which hosts no rank
// comes from any more to a fence of certain ranks.  Threads: the loop's thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/overlay/id_set.hpp"
#include "runtime/pmix/job_data.hpp"

namespace runtime::daemon {

class ProcessMap {
 public:
  ProcessMap() = default;
  /// `hosts` are valid.
  explicit ProcessMap(const std::vector<pmix::HostRanks>& hosts);

  /// Whether each rank from 0 on is at one host, and in its place in that host's list.
  [[nodiscard]] static bool valid(const std::vector<pmix::HostRanks>& hosts);

  /// 0 for a rank that does not exist.
  [[nodiscard]] std::uint32_t host_of(unsigned rank) const { return rank < host_of_.size() ? host_of_[rank] : 0; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(host_of_.size()); }

  /// These ranks have ended, whenever each did.
  void end(const overlay::IdSet& ranks);

  /// The hosts whose ranks in that fence (pmix::FenceName, packed) have all ended.
  [[nodiscard]] overlay::IdSet absent(const std::string& name) const;

 private:
  std::vector<std::uint32_t> host_of_;  // by rank
  std::vector<std::uint32_t> living_;   // by host: how many of its ranks have not ended
  overlay::IdSet ended_;                // ranks
  overlay::IdSet deserted_;             // hosts without living ranks
};

}  // namespace runtime::daemon
