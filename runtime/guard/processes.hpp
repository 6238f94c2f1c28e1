// SPDX-License-Identifier: Apache-2.0
// runtime/guard/processes.hpp — what the kernel tells of processes, and the end of every process below this one.  A
// subreaper inherits the orphans of what it started, so that killing its children again and again reaches every
// descendant, sessions and daemons included.
// Threads: the process's main thread only, which is the parent of everything it started.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <vector>

namespace runtime::guard {

/// The processes that /proc shows.
std::vector<pid_t> all_processes();
/// True from the moment `pid` begins to exit, before its descriptors are closed: a process that sees its connections
/// break sees this too.
bool is_exiting(pid_t pid);
/// Sends SIGKILL to every child of `parent`, this process by default, and to the process group that the child leads.
/// Another parent must not reap its children meanwhile.
void kill_children(pid_t parent = getpid());
/// Reaps every child that has ended, telling `on_exit` pid and wait status; false when no child is left at all.
bool reap_children(const std::function<void(pid_t, int)>& on_exit);

}  // namespace runtime::guard
