// SPDX-License-Identifier: Apache-2.0
// opal/core/system/machine.hpp — what kind of machine this is, as far as measured settings depend on it, and the file
// that holds them: hosts of one kind that share a home directory share it, others never read it. Threads: pure
// functions but for the reading of /proc/cpuinfo and the environment.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// CPU model and number of processors as a file name: "intel-r-xeon-r-processor-6-207-2cpus".  Made of the first
/// processor's block of a text like /proc/cpuinfo; "unknown" stands for a model that it does not tell.
OPAL_EXPORT std::string machine_kind(std::string_view cpuinfo, long processors);

/// The same of this machine.
OPAL_EXPORT std::string machine_kind();

/// The folders of the system's configuration files, the weaker one first: /etc/opal, and etc/opal of the tree in which
/// libopal lies, so that a tree that was installed elsewhere, or moved, takes its own along.
OPAL_EXPORT std::vector<std::string> system_config_folders();

/// The folder of this user's configuration files; empty without a home directory.
OPAL_EXPORT std::string user_config_folder();

/// Names another file than the user's opal.conf.
inline constexpr const char* kUserConfigFileName = "OPAL_CONFIG_FILE";

/// The user's file of settings; empty without a home directory.
OPAL_EXPORT std::string user_config_file();

/// All files of settings that a process reads, the weakest first, whether they are there or not.
OPAL_EXPORT std::vector<std::string> config_files();

/// The folder of this user in which files of measured settings lie; empty without a home directory.
OPAL_EXPORT std::string user_tuning_folder();

}  // namespace opal
