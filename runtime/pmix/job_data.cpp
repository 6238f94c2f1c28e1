// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/job_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>
#include <pmix_server.h>

#include <cstdlib>
#include <memory>
#include <numeric>

namespace runtime::pmix {
namespace {

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using Text = std::unique_ptr<char, Free>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};

std::string all_ranks(unsigned ranks) {
  std::vector<unsigned> numbers(ranks);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return fmt::format("{}", fmt::join(numbers, ","));
}

/// PMIx's words for where a rank runs ("SK0:L30:CR1"); empty when it may run anywhere.
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

void add_maps(InfoList& infos, const JobDescription& job) {
  char* raw = nullptr;
  if (PMIx_generate_regex(job.host.c_str(), &raw) == PMIX_SUCCESS) infos.add_regex(PMIX_NODE_MAP, Text{raw}.get());
  raw = nullptr;
  if (PMIx_generate_ppn(all_ranks(job.ranks).c_str(), &raw) == PMIX_SUCCESS) {
    infos.add_regex(PMIX_PROC_MAP, Text{raw}.get());
  }
}

}  // namespace

InfoList job_infos(const JobDescription& job) {
  InfoList infos;
  infos.add(PMIX_JOB_SIZE, job.ranks);
  infos.add(PMIX_UNIV_SIZE, job.ranks);
  infos.add(PMIX_MAX_PROCS, job.ranks);
  infos.add(PMIX_JOBID, job.job_id);
  infos.add(PMIX_JOB_NUM_APPS, 1U);
  infos.add(PMIX_NUM_NODES, 1U);
  add_maps(infos, job);

  InfoList app;
  app.add(PMIX_APPNUM, 0U);
  app.add(PMIX_APP_SIZE, job.ranks);
  app.add_rank(PMIX_APPLDR, 0);
  app.add(PMIX_WDIR, job.working_directory);
  infos.add_list(PMIX_APP_INFO_ARRAY, app);

  InfoList node;
  node.add(PMIX_HOSTNAME, job.host);
  node.add(PMIX_NODEID, 0U);
  node.add(PMIX_LOCAL_PEERS, all_ranks(job.ranks));
  node.add(PMIX_LOCAL_SIZE, job.ranks);
  node.add(PMIX_NODE_SIZE, job.ranks);
  node.add_rank(PMIX_LOCALLDR, 0);
  infos.add_list(PMIX_NODE_INFO_ARRAY, node);

  for (unsigned rank = 0; rank < job.ranks; ++rank) {
    InfoList proc;
    proc.add_rank(PMIX_RANK, rank);  // must be first
    proc.add_rank(PMIX_GLOBAL_RANK, rank);
    proc.add_rank(PMIX_APP_RANK, rank);
    proc.add(PMIX_APPNUM, 0U);
    proc.add(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(rank));
    proc.add(PMIX_NODE_RANK, static_cast<std::uint16_t>(rank));
    proc.add(PMIX_NODEID, 0U);
    proc.add(PMIX_HOSTNAME, job.host);
    if (const std::string locality = locality_of(job.cpus[rank]); !locality.empty()) {
      proc.add(PMIX_LOCALITY_STRING, locality);
    }
    infos.add_list(PMIX_PROC_INFO_ARRAY, proc);
  }
  return infos;
}

}  // namespace runtime::pmix
