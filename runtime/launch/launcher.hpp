// SPDX-License-Identifier: Apache-2.0
// runtime/launch/launcher.hpp — opalrun from a parsed command line to an exit status.
#pragma once
#include "runtime/guard/handle.hpp"
#include "runtime/options/options.hpp"

namespace runtime::launch {

/// Runs the job and ends the process with its exit status; returns a status only when nothing was started.
/// `name` is how the launcher was called; `command_line` is argv, for the process guard's name in ps.
/// Call once, before the process has threads.
int launch(const std::string& name, const Options& options, guard::CommandLine command_line);

}  // namespace runtime::launch
