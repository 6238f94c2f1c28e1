// SPDX-License-Identifier: Apache-2.0
// runtime/options/settings.hpp — what --set gave, checked before anything starts.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "opal/core/config/store.hpp"
#include "runtime/options/options.hpp"

namespace runtime::launch {

/// The settings of this process's environment, with `settings` over them: for a Context set up as those of the ranks.
opal::config::Store store_with(const std::vector<std::pair<std::string, std::string>>& settings);

/// What is wrong with the settings of --set: an unknown name with the nearest known one, a value out of range.  Empty
/// when all is well. Variables of the MPI library are its own to check.
std::string check_settings(const Options& options);

}  // namespace runtime::launch
