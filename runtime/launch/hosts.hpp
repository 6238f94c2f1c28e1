// SPDX-License-Identifier: Apache-2.0
// runtime/launch/hosts.hpp — which hosts the job may use, and how many slots they have: from --host, a host file in
// Open MPI's ("h1 slots=4") or MPICH's ("h1:4") syntax, a Slurm allocation, or this host alone; and which rank runs on
// which host.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/options/options.hpp"

namespace runtime::launch {

/// A host that the job may use.
struct HostSlots {
  std::string name;
  unsigned slots = 1;
};

/// Where the job runs.  A `problem` that is not empty is the message why it cannot run.
struct Allocation {
  std::vector<HostSlots> hosts;  ///< each once, in the order of their first mention
  unsigned ranks = 0;            ///< number of ranks of the job
  bool slurm = false;            ///< the hosts are those of the Slurm allocation that this process is in
  std::string problem;
};

/// Applies -n, --host, --hostfile and the Slurm allocation.  `cores`: number of usable cores of this host.
Allocation find_hosts(const Options& options, unsigned cores);

/// True when `name` means the host this process runs on.
bool is_this_host(const std::string& name);

/// "n[1-3,7],x" -> n1 n2 n3 n7 x.  Leading zeros are kept.  With several brackets in a name the last one varies
/// fastest.  Empty when `text` is not such a list or names more than 2^20 hosts.
std::vector<std::string> expand_host_list(const std::string& text);

/// "2(x3),1" -> 2 2 2 1, as Slurm counts tasks or processors per node; empty when it is not such a list.
std::vector<unsigned> expand_counts(const std::string& text);

/// The ranks of each host, in the order of `hosts`, ascending.  Ranks beyond the number of slots go to the hosts one
/// each in turn, so that all hosts are oversubscribed equally.
std::vector<std::vector<std::uint32_t>> place_ranks(Map map, unsigned ranks, const std::vector<HostSlots>& hosts);

/// One line per host: "h1 (4 slots): ranks 0-3".
std::string describe(const std::vector<HostSlots>& hosts, const std::vector<std::vector<std::uint32_t>>& placed);

}  // namespace runtime::launch
