// SPDX-License-Identifier: Apache-2.0
// opal/memory/events/monitor.hpp — the memory monitor: it detects that memory is unmapped, replaced or emptied, and
// calls released().  A process has at most one, chosen once, by the variable memory_monitor.  The patcher is used only
// if it passes the self-test.  Without a monitor, no registration may be kept after its use.
// Threads: safe from any thread, also while others run.
#pragma once
#include <string>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/config.hpp"

namespace opal::memory {

struct Choice {
  const char* monitor = nullptr;  ///< "patcher" or "explicit"; null: releases are not reported, keep no registration
  std::string reasons;            ///< why there is no monitor, a line
};

/// Chooses and starts the monitor.  Later calls return the first choice; they log a warning, once, if `config` differs.
/// The reference is valid until the process ends.
OPAL_EXPORT const Choice& start_monitor(const Config& config);

/// The result of start_monitor(); null before.
OPAL_EXPORT const Choice* chosen_monitor() noexcept;

/// True if releases of memory are reported: start_monitor() has chosen a monitor.
[[nodiscard]] OPAL_EXPORT bool monitored() noexcept;

/// Starts the patcher (docs/design/memory.md); called once.  Errors: not_supported, permission; `where` names what is
/// missing.
Result<void> start_patcher();

/// Tests that releases are reported in this process, with its preloaded libraries and hooks: by munmap, mremap, mmap
/// over a mapping, madvise, free and realloc.
/// Errors: not_supported (a release was not reported; `where` names the call), no_memory.
OPAL_EXPORT Result<void> self_test() noexcept;

}  // namespace opal::memory
