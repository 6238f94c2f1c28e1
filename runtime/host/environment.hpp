// SPDX-License-Identifier: Apache-2.0
// runtime/host/environment.hpp — the environment a rank starts with: the launcher's, what the user added, and which
// rank it is.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/options/options.hpp"

namespace runtime::launch {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Later variables replace earlier ones of the same name; the order of first appearance stays.
std::vector<std::string> to_environment(const Variables& variables);

/// Names of a job on one host.
struct JobNames {
  std::string job_id;
  std::string session;      ///< of the process that starts the ranks, by which a later one finds what it left
  std::string secret_file;  ///< on this host
};

/// What all ranks of this host share.
Variables job_variables(const Options& options, const JobNames& names);

/// Identifies one rank, for scripts; names are those that scripts already look for.  `local`: the ranks of this host.
Variables rank_variables(unsigned rank, unsigned ranks, const std::vector<std::uint32_t>& local);

/// What ranks of other hosts get of this process's environment: all but what is about this host or this login.
Variables forwarded_variables();

inline void append(Variables& variables, const Variables& more) {
  variables.insert(variables.end(), more.begin(), more.end());
}

}  // namespace runtime::launch
