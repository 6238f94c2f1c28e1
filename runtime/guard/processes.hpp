// SPDX-License-Identifier: Apache-2.0
// runtime/guard/processes.hpp — reads the state of processes from /proc, and kills the descendants of a process.  A
// subreaper inherits the orphans of its descendants.  So when it kills its children repeatedly, it reaches every
// descendant, also one in another session.
// Threads: the process's main thread only.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <vector>

namespace runtime::guard {

/// The ids of all processes that /proc shows.
std::vector<pid_t> all_processes();
/// True as soon as `pid` begins to exit, or does not exist.  The kernel sets the state before it closes the
/// descriptors: when a connection of the process has broken by its exit, this is already true.
bool is_exiting(pid_t pid);
/// Sends SIGKILL to every child of `parent`, and to the process group that the child leads.
/// Requires: no child of `parent` is reaped during the call.
void kill_children(pid_t parent = getpid());
/// Reaps every child that has ended and calls `on_exit` with its pid and wait status.  Returns false when no child is
/// left, running or not.
bool reap_children(const std::function<void(pid_t, int)>& on_exit);

}  // namespace runtime::guard
