// SPDX-License-Identifier: Apache-2.0
// opal/tools/info/upper_groups.hpp — variables of the libraries above libopal, which this tool must not depend on:
// it loads the ones that are there and asks each for its groups (config::kListGroupsSymbol).
#pragma once
#include <vector>

#include "opal/core/config/config.hpp"

namespace opal::tools::info {

/// The groups of libopal_runtime and libmpi_abi as far as these are installed; they stay loaded for ever.
std::vector<const config::GroupInfo*> upper_groups();

}  // namespace opal::tools::info
