// SPDX-License-Identifier: Apache-2.0
// runtime/launch/launcher.hpp — opalrun from a parsed command line to an exit status.
#pragma once
#include "runtime/launch/options.hpp"
#include "runtime/warden/handle.hpp"

namespace runtime::launch {

/// Runs the job.  `name` is how the launcher was called; `command_line` is argv, for the warden's name in ps.
/// Call once, before the process has threads, and end with _exit: threads of libraries may still run.
int launch(const std::string& name, const Options& options, warden::CommandLine command_line);

}  // namespace runtime::launch
