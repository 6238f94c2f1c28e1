// SPDX-License-Identifier: Apache-2.0
// opal/memory/address_space/address_space.hpp — keeps tables of what is mapped equal to the kernel's list, call by
// call: a mapping is in the tables before the call that makes it returns, and out of them before it goes. Needs the
// patcher.  Stack growth and mappings made by other means are found by refresh(). A forked child follows nothing.
// Threads: everything from any thread; inside a mapping call nothing here allocates.
#pragma once
#include <chrono>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/address_space/mapping_calls.hpp"
#include "opal/memory/address_space/mapping_table.hpp"

namespace opal::memory::address_space {

/// Fills `table` and keeps it true until unfollow().  Errors: not_supported (no patcher in this process),
/// limit_reached.
OPAL_EXPORT Result<void> follow(MappingTable& table) noexcept;

/// No change to the table is in flight when this returns.  Unknown tables are ignored.
OPAL_EXPORT void unfollow(MappingTable& table) noexcept;

/// Reads the kernel's list again, for every table.
OPAL_EXPORT void refresh() noexcept;
/// The same unless it was done in the last kMissInterval: for a caller that did not find what a peer asked for, which
/// may have been mapped without libc.  True when it was done.
inline constexpr std::chrono::milliseconds kMissInterval{10};
OPAL_EXPORT bool refresh_after_miss() noexcept;

/// Keeps what is mapped in `range` now out of reach, or (false) lets it in again.  Ends when it is unmapped.
OPAL_EXPORT void exclude(MappingTable& table, Range range, bool excluded) noexcept;

/// As mmap(nullptr, size, protection, flags, fd, offset), but out of reach from the first moment.  The address, or
/// -errno.
OPAL_EXPORT long map_excluded(MappingTable& table, std::size_t size, int protection, int flags, int fd,
                              long offset) noexcept;

/// True while any table follows in this process.
[[nodiscard]] bool followed() noexcept;

/// Carries out a watched call and changes the tables around it.  Only while followed().
long perform_followed(const SystemCall& call) noexcept;

}  // namespace opal::memory::address_space
