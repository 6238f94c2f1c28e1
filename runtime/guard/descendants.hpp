// SPDX-License-Identifier: Apache-2.0
// runtime/guard/descendants.hpp — ends every process below this one.  A subreaper inherits the orphans of what it
// started, so that killing its children again and again reaches every descendant, sessions and daemons included.
// Threads: the process's main thread only, which is the parent of everything it started.
#pragma once
#include <sys/types.h>

#include <functional>
#include <vector>

namespace runtime::guard {

/// The processes whose parent is `parent`, zombies included.
std::vector<pid_t> children_of(pid_t parent);

/// Sends SIGKILL to every child and to the process group it leads, except to `spared`.
void kill_children(pid_t spared = 0);

/// The same for the children of another process, which must not reap them meanwhile.
void kill_children_of(pid_t parent, pid_t spared = 0);

/// Reaps every child that has ended, telling `on_exit` pid and wait status; false when no child is left at all.
bool reap_children(const std::function<void(pid_t, int)>& on_exit);

}  // namespace runtime::guard
