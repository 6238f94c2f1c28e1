// SPDX-License-Identifier: Apache-2.0
// runtime/launch/launcher.hpp — opalrun from a parsed command line to an exit status.
#pragma once
#include "runtime/guard/handle.hpp"
#include "runtime/options/options.hpp"

namespace runtime::launch {

/// Runs the job and ends the process with its exit status.  If no rank can be started, prints the problem and returns
/// the status.  `name`: how the launcher was called.  `command_line`: argv, which the process guard overwrites with its
/// name.  Requires: called once, while the process has one thread.
int launch(const std::string& name, const Options& options, guard::CommandLine command_line);

}  // namespace runtime::launch
