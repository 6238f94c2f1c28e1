// SPDX-License-Identifier: Apache-2.0
// opal/am/groups.hpp — the list of all groups of configuration variables of libopal.
// A new group outside of a transport gets a line in groups.cpp; a transport's group is in its Component.
#pragma once
#include <string_view>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/core/config/config.hpp"
#include "opal/core/export.hpp"

namespace opal::am {

/// Prefixes of the groups of the libraries above libopal.  Store::verify() accepts unknown names with these prefixes,
/// since a process need not load those libraries.
inline constexpr std::string_view kUpperPrefixes[] = {"runtime_", "mpi_"};

/// The groups of libopal and of the transports in `registry`, in the order in which listings show them.
OPAL_EXPORT std::vector<const config::GroupInfo*> config_groups(const btl::Registry& registry);

}  // namespace opal::am
