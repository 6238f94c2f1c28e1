// SPDX-License-Identifier: Apache-2.0
// runtime/host/liveness.hpp — whether a process still runs, asked of the kernel and not of its parent.
#pragma once
#include <sys/types.h>

namespace runtime::launch {

/// True from the moment `pid` begins to exit, before its descriptors are closed: a process that sees its connections
/// break sees this too.
bool is_exiting(pid_t pid);

}  // namespace runtime::launch
