// SPDX-License-Identifier: Apache-2.0
// runtime/launch/hosts.hpp — which hosts the job may use, and how many slots they have.
#pragma once
#include <string>
#include <vector>

#include "runtime/launch/options.hpp"

namespace runtime::launch {

/// How many ranks a job has, or the message that says why there can be none.
struct Slots {
  unsigned ranks = 0;
  std::string problem;
};

/// Applies -n, --host and --hostfile; `cores` is what this host offers.  Every host must be this one.
Slots count_ranks(const Options& options, unsigned cores);

/// True when `name` means the host this process runs on.
bool is_this_host(const std::string& name);

}  // namespace runtime::launch
