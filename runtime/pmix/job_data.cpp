// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/job_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>
#include <pmix_server.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace runtime::pmix {
namespace {

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using Text = std::unique_ptr<char, Free>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};

/// "0,1,5".
std::string list_of(const std::vector<std::uint32_t>& ranks) { return fmt::format("{}", fmt::join(ranks, ",")); }

/// The PMIX_LOCALITY_STRING of a rank bound to `cpus`, such as "SK0:L30:CR1"; empty if it is not bound, or if libpmix
/// has none.
std::string locality_of(const std::vector<std::uint32_t>& cpus) {
  if (cpus.empty()) return {};
  const std::unique_ptr<hwloc_bitmap_s, FreeBitmap> bitmap{hwloc_bitmap_alloc()};
  for (const std::uint32_t cpu : cpus) hwloc_bitmap_set(bitmap.get(), cpu);
  char source[] = "hwloc";
  const pmix_cpuset_t set{source, bitmap.get()};
  char* raw = nullptr;
  if (PMIx_server_generate_locality_string(&set, &raw) != PMIX_SUCCESS || raw == nullptr) return {};
  return Text{raw}.get();
}

/// PMIX_NODE_MAP and, unless libpmix has no memory, PMIX_PROC_MAP.  This code writes the node map itself, with names in
/// full: PMIx_generate_regex() of libpmix 4.2.2 overflows a buffer of 50 bytes for long names, and converts numbers in
/// names to int.
void add_maps(InfoList& infos, const std::vector<const HostRanks*>& hosts) {
  std::string names;
  std::string ranks;
  for (const HostRanks* host : hosts) {
    names += fmt::format("{}{}", names.empty() ? "" : ",", host->name);
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ";", list_of(host->ranks));
  }
  infos.add_regex(PMIX_NODE_MAP, fmt::format("pmix[{}]", names).c_str());
  char* raw = nullptr;
  if (PMIx_generate_ppn(ranks.c_str(), &raw) == PMIX_SUCCESS) infos.add_regex(PMIX_PROC_MAP, Text{raw}.get());
}

void add_host(InfoList& infos, const HostRanks& host, std::uint32_t number) {
  InfoList node;
  node.add(PMIX_HOSTNAME, host.name);
  node.add(PMIX_NODEID, number);
  node.add(PMIX_LOCAL_PEERS, list_of(host.ranks));
  node.add(PMIX_LOCAL_SIZE, static_cast<std::uint32_t>(host.ranks.size()));
  node.add(PMIX_NODE_SIZE, static_cast<std::uint32_t>(host.ranks.size()));
  node.add_rank(PMIX_LOCALLDR, host.ranks.front());
  infos.add_list(PMIX_NODE_INFO_ARRAY, node);
}

/// `number`: PMIX_NODEID of the host; `place`: index in host.ranks, which is the local rank; `cpus`: null for ranks of
/// other hosts, whose locality is not known here.
void add_rank(InfoList& infos, const HostRanks& host, std::uint32_t number, std::size_t place,
              const std::vector<std::uint32_t>* cpus) {
  const std::uint32_t rank = host.ranks[place];
  InfoList proc;
  proc.add_rank(PMIX_RANK, rank);  // libpmix takes the rank from the first entry
  proc.add_rank(PMIX_GLOBAL_RANK, rank);
  proc.add_rank(PMIX_APP_RANK, rank);
  proc.add(PMIX_APPNUM, 0U);
  proc.add(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(place));
  proc.add(PMIX_NODE_RANK, static_cast<std::uint16_t>(place));  // one job: the same as the local rank
  proc.add(PMIX_NODEID, number);
  proc.add(PMIX_HOSTNAME, host.name);
  const std::string locality = cpus == nullptr ? std::string{} : locality_of(*cpus);
  if (!locality.empty()) proc.add(PMIX_LOCALITY_STRING, locality);
  infos.add_list(PMIX_PROC_INFO_ARRAY, proc);
}

}  // namespace

std::uint32_t node_id(const JobDescription& job, std::size_t host) {
  return static_cast<std::uint32_t>(std::count_if(job.hosts.begin(),
                                                  job.hosts.begin() + static_cast<std::ptrdiff_t>(host),
                                                  [](const HostRanks& before) { return !before.ranks.empty(); }));
}

InfoList job_infos(const JobDescription& job) {
  std::vector<const HostRanks*> used;  // hosts with ranks; hosts[0], the launcher's, may have none
  for (const HostRanks& host : job.hosts) {
    if (!host.ranks.empty()) used.push_back(&host);
  }
  InfoList infos;
  infos.add(PMIX_JOB_SIZE, job.ranks);
  infos.add(PMIX_UNIV_SIZE, job.ranks);
  infos.add(PMIX_MAX_PROCS, job.ranks);
  infos.add(PMIX_JOBID, job.job_id);
  infos.add(PMIX_JOB_NUM_APPS, 1U);
  infos.add(PMIX_NUM_NODES, static_cast<std::uint32_t>(used.size()));
  add_maps(infos, used);

  InfoList app;
  app.add(PMIX_APPNUM, 0U);
  app.add(PMIX_APP_SIZE, job.ranks);
  app.add_rank(PMIX_APPLDR, 0);
  app.add(PMIX_WDIR, job.working_directory);
  infos.add_list(PMIX_APP_INFO_ARRAY, app);

  // `number` is the node_id() of the host.
  for (std::uint32_t number = 0; number < used.size(); ++number) add_host(infos, *used[number], number);
  for (std::uint32_t number = 0; number < used.size(); ++number) {
    const HostRanks& host = *used[number];
    const bool own = &host == &job.hosts[job.own_host];
    for (std::size_t place = 0; place < host.ranks.size(); ++place) {
      add_rank(infos, host, number, place, own ? &job.cpus[place] : nullptr);
    }
  }
  return infos;
}

}  // namespace runtime::pmix
