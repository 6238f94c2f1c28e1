// SPDX-License-Identifier: Apache-2.0
// runtime/launch/settings.hpp — what --set gave, checked before anything starts.
#pragma once
#include <string>

#include "opal/core/config_store.hpp"
#include "runtime/launch/options.hpp"

namespace runtime::launch {

/// The settings of --set alone, as the ranks will see them.
opal::config::Store launcher_settings(const Options& options);

/// What is wrong with them: an unknown name with the nearest known one, a value out of range.  Empty when all is well.
/// Variables of the MPI library are its own to check.
std::string check_settings(const Options& options);

}  // namespace runtime::launch
