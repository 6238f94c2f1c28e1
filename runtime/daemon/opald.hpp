// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/opald.hpp — the daemon of one host of a job: joins the launcher, starts its ranks, reports, forwards.
// Ends with the job, when the launcher is gone or silent, and when its process guard is; nothing of the job stays on
// its host.
#pragma once
#include "runtime/daemon/tree/bootstrap.hpp"
#include "runtime/guard/handle.hpp"

namespace runtime::daemon {

/// The daemon's life; ends the process.  Call once, before the process has threads.
[[noreturn]] void serve(const Bootstrap& bootstrap, guard::CommandLine command_line);

}  // namespace runtime::daemon
