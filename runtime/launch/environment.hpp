// SPDX-License-Identifier: Apache-2.0
// runtime/launch/environment.hpp — the environment a rank starts with: the launcher's, what the user added, and who it
// is.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/launch/options.hpp"

namespace runtime::launch {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Later variables replace earlier ones of the same name; the order of first appearance stays.
std::vector<std::string> to_environment(const Variables& variables);

/// What all ranks share; `secret_file` is on their host.
Variables job_variables(const Options& options, const std::string& job_id, const std::string& secret_file);

/// Who one rank is, for scripts; names are those that scripts already look for.
Variables rank_variables(int rank, unsigned ranks);

}  // namespace runtime::launch
