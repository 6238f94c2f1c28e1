// SPDX-License-Identifier: Apache-2.0
// opal/memory/address_space/address_space.hpp — keeps MappingTables of this process equal to the kernel's list of
// mappings.  It updates them within each system call: a new mapping is in the tables before the call returns, and the
// tables drop a mapping before the kernel unmaps it.  Requires the patcher as memory monitor.  Only refresh() finds
// stack growth, and mappings made by a system call instruction outside the patched code.  In a forked child no table is
// updated.  Threads: safe from any thread.  Nothing here allocates inside a mapping call.
#pragma once
#include <chrono>
#include <functional>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/address_space/mapping_calls.hpp"
#include "opal/memory/address_space/mapping_table.hpp"

namespace opal::memory::address_space {

/// Fills `table` and keeps it equal to the kernel's list until unfollow(), which the owner calls before it destroys the
/// table.  Errors: not_supported (the monitor is not the patcher, or no MADV_WIPEONFORK), no_memory, limit_reached (64
/// tables).
OPAL_EXPORT Result<void> follow(MappingTable& table) noexcept;

/// Ends the updates of `table`; none is in flight on return.  Tables that follow() did not add are ignored.
OPAL_EXPORT void unfollow(MappingTable& table) noexcept;

/// Updates all tables from the kernel's list.  If that cannot be read (no free descriptor), the next mapping call or
/// refresh() does.  Cost: linear in the number of mappings.
OPAL_EXPORT void refresh() noexcept;
/// As refresh(), at most once per kMissInterval.  For a caller that does not find the memory that a peer names: it may
/// have been mapped without libc.  True: this call has refreshed the tables.
inline constexpr std::chrono::milliseconds kMissInterval{10};
OPAL_EXPORT bool refresh_after_miss() noexcept;

/// Excludes the present mappings in `range`: peers cannot access them through `table`.  `excluded` false ends this, as
/// does unmapping.
OPAL_EXPORT void exclude(MappingTable& table, Range range, bool excluded) noexcept;

/// As mmap(nullptr, size, protection, flags, fd, offset), but the mapping is excluded in `table` from its beginning.
/// Returns the address, or -errno; -ENOSYS before the first follow().
OPAL_EXPORT long map_excluded(MappingTable& table, std::size_t size, int protection, int flags, int fd,
                              long offset) noexcept;

/// Runs `work` while no table is updated: the mapping calls of other threads wait.  `work` makes none, and allocates
/// nothing.
OPAL_EXPORT void while_unchanged(const std::function<void()>& work) noexcept;

/// True while follow() has a table in this process.
[[nodiscard]] bool followed() noexcept;

/// Performs a watched call and updates the tables before and after it.  Returns the kernel's result.
/// Requires: followed() was true.
long perform_followed(const SystemCall& call) noexcept;

}  // namespace opal::memory::address_space
