// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/host_memory.hpp — how much memory this process may come to use, which bounds what it may pin:
// pinned pages are not reclaimed, and a control group at its limit ends processes instead of refusing a registration.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/export.hpp"

namespace opal::btl::verbs {

/// Bytes: the host's memory, or the least limit (memory.max) of this process's control group (version 2) and those
/// above it.  `membership` and `mount` are where the kernel tells.
OPAL_EXPORT std::uint64_t usable_memory(const std::string& membership = "/proc/self/cgroup",
                                        const std::string& mount = "/sys/fs/cgroup");

/// Bytes that this process may lock (RLIMIT_MEMLOCK); UINT64_MAX: any number.  The right to lock as much as one likes
/// (CAP_IPC_LOCK) counts where `heeds_right`: a driver may not ask for it.
OPAL_EXPORT std::uint64_t lockable_memory(bool heeds_right) noexcept;

}  // namespace opal::btl::verbs
