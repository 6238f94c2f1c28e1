// SPDX-License-Identifier: Apache-2.0
// runtime/guard/descendants.hpp — ends every process below this one.  A subreaper inherits the orphans of what it
// started, so that killing its children again and again reaches every descendant, sessions and daemons included.
// Threads: the process's main thread only, which is the parent of everything it started.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <functional>

namespace runtime::guard {

/// Sends SIGKILL to every child of `parent`, this process by default, and to the process group that the child leads.
/// Another parent must not reap its children meanwhile.
void kill_children(pid_t parent = getpid());

/// Reaps every child that has ended, telling `on_exit` pid and wait status; false when no child is left at all.
bool reap_children(const std::function<void(pid_t, int)>& on_exit);

}  // namespace runtime::guard
