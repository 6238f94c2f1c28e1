// SPDX-License-Identifier: Apache-2.0
// opal/memory/events/monitor.hpp — the memory monitor: it detects that memory is unmapped, replaced or emptied, and
// calls released().  A process has at most one, chosen once, by the variable memory_monitor or supplied by the program.
// A monitor is used only if it passes the self-test.  Without a monitor, no registration may be kept after its use.
// Threads: safe from any thread, also while others run.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/config.hpp"

namespace opal::memory {

class OPAL_EXPORT Monitor {
 public:
  Monitor() noexcept = default;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  virtual ~Monitor();

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Starts to report; called once.  Errors: not_supported, permission; `where` names what is missing.
  virtual Result<void> start() noexcept = 0;
  /// False: no self-test, because the program itself calls released().
  [[nodiscard]] virtual bool testable() const noexcept { return true; }
};

struct Choice {
  Monitor* monitor = nullptr;  ///< null: releases are not reported, keep no registration
  std::string reasons;         ///< a line for each monitor that failed, with its error
};

/// Supplies a monitor of the program, which the value `auto` prefers.  It must exist until the process ends.
/// False: too late, start_monitor() has chosen another one.
OPAL_EXPORT bool supply_monitor(Monitor& monitor) noexcept;

/// Chooses and starts the monitor.  Later calls return the first choice; they log a warning, once, if `config` differs.
/// The reference is valid until the process ends.
OPAL_EXPORT const Choice& start_monitor(const Config& config);

/// The result of start_monitor(); null before.
OPAL_EXPORT const Choice* chosen_monitor() noexcept;

/// Tests that the monitor that has started reports releases in this process, with its preloaded libraries and hooks: by
/// munmap, mremap, mmap over a mapping, madvise, free and realloc.
/// Errors: not_supported (a release was not reported; `where` names the call), no_memory.
Result<void> self_test() noexcept;

std::unique_ptr<Monitor> make_patcher();  ///< only on x86-64

}  // namespace opal::memory
