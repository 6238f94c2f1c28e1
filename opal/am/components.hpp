// SPDX-License-Identifier: Apache-2.0
// opal/am/components.hpp — the transports that a Context may open: those built into libopal, and those that it loads
// from the directories of am_component_path; and the groups of configuration variables of libopal.  A loaded shared
// object stays loaded until the process ends.
// Threads: safe from any thread, but for constructors of the shared objects.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/export.hpp"

namespace opal::am {

/// A file or directory of am_component_path: a component, or the reason why there is none.
struct ComponentFile {
  std::string path;
  const btl::Component* component = nullptr;  ///< null: refused
  std::string refusal;                        ///< one line for the user; empty if it is not refused
};

struct Components {
  btl::Registry registry;            ///< the built-in transports, and the loaded ones
  std::vector<ComponentFile> files;  ///< in the order of the directories, then by name
};

/// Loads each file *.so of the directories.  A file that is no component of this version, or has the name of another
/// transport, is refused.  No file is loaded if the process has more rights than its user (AT_SECURE).
/// Cost: as of dlopen(), at the first call of a process; without am_component_path nothing.
OPAL_EXPORT Components find_components(const config::Store& store);

/// Prefixes of the groups of the libraries above libopal.  Store::verify() accepts unknown names with these prefixes,
/// since a process need not load those libraries.
inline constexpr std::string_view kUpperPrefixes[] = {"runtime_", "mpi_"};

/// All groups of configuration variables of libopal and of the transports in `registry`, in the order in which listings
/// show them.  A new group outside of a transport gets a line there; a transport's group is in its Component.
OPAL_EXPORT std::vector<const config::GroupInfo*> config_groups(const btl::Registry& registry);

}  // namespace opal::am
