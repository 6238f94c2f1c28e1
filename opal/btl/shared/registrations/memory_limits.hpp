// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/memory_limits.hpp — the memory limits of this process, which bound what it pins: the
// kernel does not reclaim pinned pages, and a control group at its limit kills processes instead of refusing a
// registration. Threads: any.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/export.hpp"

namespace opal::btl {

/// Bytes: the smaller of the host's memory and the memory.max limits of this process's control group (version 2) and
/// its ancestors.  `membership`, `mount`: the files of the kernel; tests pass others.
OPAL_EXPORT std::uint64_t usable_memory(const std::string& membership = "/proc/self/cgroup",
                                        const std::string& mount = "/sys/fs/cgroup");

/// Bytes that this process may lock (RLIMIT_MEMLOCK); UINT64_MAX: no limit.  `heeds_right`: the driver grants processes
/// with CAP_IPC_LOCK any amount; not all drivers do.
OPAL_EXPORT std::uint64_t lockable_memory(bool heeds_right) noexcept;

}  // namespace opal::btl
