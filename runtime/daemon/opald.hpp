// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/opald.hpp — the daemon of one host of a job.  It joins the launcher, starts the ranks of its host,
// reports their ends and forwards their output.  It ends when the launcher sends Quit, or when the launcher is out of
// reach; in both cases no process of the job is left on its host.
#pragma once
#include "runtime/daemon/tree/bootstrap.hpp"
#include "runtime/guard/handle.hpp"

namespace runtime::daemon {

/// Runs the daemon and ends the process.  Requires: called once, while the process has one thread.
/// `command_line` is argv, which the process guard overwrites with its name.
[[noreturn]] void serve(const Bootstrap& bootstrap, guard::CommandLine command_line);

}  // namespace runtime::daemon
