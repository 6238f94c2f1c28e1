// SPDX-License-Identifier: Apache-2.0
// runtime/host/environment.hpp — the environment of a rank: that of the launcher, the user's additions (-x, --set), and
// variables that identify the job and the rank.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/options/options.hpp"

namespace runtime::launch {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// "NAME=VALUE" of each variable, sorted by name.  A later variable replaces an earlier one of the same name.
std::vector<std::string> to_environment(const Variables& variables);

/// Names of a job on one host.
struct JobNames {
  std::string job_id;
  std::string session;      ///< name of the session that starts the ranks; sweep_stale_sessions() finds them by it
  std::string secret_file;  ///< on this host
};

/// The variables that all ranks of this host have in common.
Variables job_variables(const Options& options, const JobNames& names);

/// The variables that identify one rank to scripts, under Open MPI's names (OMPI_COMM_WORLD_*).  `ranks`: number of
/// ranks in the job.  `local`: the ranks of this host, ascending.
Variables rank_variables(unsigned rank, unsigned ranks, const std::vector<std::uint32_t>& local);

/// This process's environment for ranks of other hosts: without the variables that describe this host or this login.
Variables forwarded_variables();

inline void append(Variables& variables, const Variables& more) {
  variables.insert(variables.end(), more.begin(), more.end());
}

}  // namespace runtime::launch
