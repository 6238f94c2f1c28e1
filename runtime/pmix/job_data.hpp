// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/job_data.hpp — what a PMIx server tells its clients about their job: sizes, maps, places.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/pmix/info_list.hpp"

struct hwloc_topology;

namespace runtime::pmix {

/// One host of a job and its ranks.
struct HostRanks {
  std::string name;
  std::vector<std::uint32_t> ranks;  ///< ascending; may be none
};

/// A job, seen from one of its hosts.
struct JobDescription {
  std::string job_id;  ///< becomes the PMIx namespace
  std::vector<HostRanks> hosts;
  std::uint32_t own_host = 0;     ///< index in `hosts`
  std::string session_directory;  ///< for files of the server and its clients
  std::string working_directory;
  unsigned ranks = 0;
  hwloc_topology* topology = nullptr;  ///< of this host, for the clients, too; lives as long as the server
  std::vector<std::vector<std::uint32_t>>
      cpus;  ///< one entry per rank of the own host: its CPUs; an empty entry: the rank is not bound
};

/// PMIx's number of the host of this index; hosts without ranks are not counted.
std::uint32_t node_id(const JobDescription& job, std::size_t host);

/// The infos for PMIx_server_register_nspace; the server must be initialised.
InfoList job_infos(const JobDescription& job);

}  // namespace runtime::pmix
