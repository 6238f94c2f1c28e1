// SPDX-License-Identifier: Apache-2.0
// opal/core/system/machine.hpp — the kind of this machine, and the paths of configuration files.  Measured settings are
// in one file per kind of machine: hosts of one kind with a common home directory share it, other hosts do not read it.
// Threads: safe from any thread; see environment.hpp.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// CPU model and number of processors as a file name: "intel-r-xeon-r-processor-6-207-2cpus".  `cpuinfo` is a text as
/// in /proc/cpuinfo, of which the first processor counts.  The model is "unknown" if the text does not contain it.
OPAL_EXPORT std::string machine_kind(std::string_view cpuinfo, long processors);

/// The kind of this machine; reads /proc/cpuinfo.
OPAL_EXPORT std::string machine_kind();

/// The folders of the system's configuration files, the weaker one first: /etc/opal, and etc/opal of the tree that
/// contains libopal.  The second follows a tree that is installed elsewhere or moved.
OPAL_EXPORT std::vector<std::string> system_config_folders();

/// $XDG_CONFIG_HOME/opal, else $HOME/.config/opal; empty if neither variable is set.
OPAL_EXPORT std::string user_config_folder();

/// This environment variable replaces the path of the user's opal.conf.
inline constexpr const char* kUserConfigFileName = "OPAL_CONFIG_FILE";

/// The path of the user's settings: $OPAL_CONFIG_FILE, else opal.conf in user_config_folder(); empty if neither exists.
OPAL_EXPORT std::string user_config_file();

/// The paths of all settings files that Store::from_environment() looks for, the weakest first.  Some may not exist.
OPAL_EXPORT std::vector<std::string> config_files();

/// The folder of this user's measured settings; empty if user_config_folder() is.
OPAL_EXPORT std::string user_tuning_folder();

}  // namespace opal
