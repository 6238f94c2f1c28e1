// SPDX-License-Identifier: Apache-2.0
// opal/am/groups.hpp — every group of configuration variables that libopal has, listed in one place.
// A new group outside of a transport gets a line in groups.cpp; a transport's group comes with its Component.
#pragma once
#include <string_view>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/core/config/config.hpp"
#include "opal/core/export.hpp"

namespace opal::am {

/// How the groups of the libraries above begin, for Store::verify: a process without them need not mention their names.
inline constexpr std::string_view kUpperPrefixes[] = {"runtime_", "mpi_"};

/// The groups of libopal and of the transports in `registry`, in the order in which listings show them.
OPAL_EXPORT std::vector<const config::GroupInfo*> config_groups(const btl::Registry& registry);

}  // namespace opal::am
