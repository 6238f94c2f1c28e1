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

/// Where the job runs, or the message that says why it cannot.
struct Allocation {
  std::vector<HostSlots> hosts;  ///< each once, in the order they were named
  unsigned ranks = 0;
  bool slurm = false;  ///< the hosts are those of the Slurm allocation that this process is in
  std::string problem;
};

/// Applies -n, --host, --hostfile and the Slurm allocation; `cores` is what this host offers.
Allocation find_hosts(const Options& options, unsigned cores);

/// True when `name` means the host this process runs on.
bool is_this_host(const std::string& name);

/// "n[1-3,7],x" -> n1 n2 n3 n7 x, with the widths of numbers kept; several brackets in a name count the last one
/// fastest. Empty when it is not such a list.
std::vector<std::string> expand_host_list(const std::string& text);

/// "2(x3),1" -> 2 2 2 1, as Slurm counts tasks or processors per node; empty when it is not such a list.
std::vector<unsigned> expand_counts(const std::string& text);

/// The ranks of each host, in the order of `hosts` and ascending.  More ranks than slots: what is over is dealt out in
/// turn, so that every host is oversubscribed alike.
std::vector<std::vector<std::uint32_t>> place_ranks(Map map, unsigned ranks, const std::vector<HostSlots>& hosts);

/// One line per host: "h1 (4 slots): ranks 0-3".
std::string describe(const std::vector<HostSlots>& hosts, const std::vector<std::vector<std::uint32_t>>& placed);

}  // namespace runtime::launch
