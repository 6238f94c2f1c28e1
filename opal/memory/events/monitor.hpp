// SPDX-License-Identifier: Apache-2.0
// opal/memory/events/monitor.hpp — the part that learns when memory is unmapped, replaced or emptied, and calls
// released(). One per process, chosen once: by the variable memory_monitor, or the program's own.  A monitor counts
// only after it has passed the self-test; without one, whatever would have to know of unmapping must not be kept.
// Threads: everything from any thread; the choice itself wants to be made before threads start (the patcher demands
// it).
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/config.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

class OPAL_EXPORT Monitor {
 public:
  Monitor() noexcept = default;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  virtual ~Monitor();

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Starts to report; called once.  Errors: not_supported, permission, with words that say what is missing.
  virtual Result<void> start() noexcept = 0;
  /// Wants to hear of `range`; to be called before a device is told of the memory.  Monitors that see everything need
  /// not be asked.  Errors: not_supported (its release is not reported: keep nothing of it).
  virtual Result<void> watch(Range range) noexcept {
    (void)range;
    return {};
  }
  /// False: the program reports by itself, there is nothing to try.
  [[nodiscard]] virtual bool testable() const noexcept { return true; }
};

struct Choice {
  Monitor* monitor = nullptr;  ///< null: releases are not reported; keep nothing
  std::string reasons;         ///< a line per monitor that was not taken, and why
};

/// Offers the program's own monitor, which `auto` prefers; it must live as long as the process.  False: too late, the
/// choice was made.
OPAL_EXPORT bool supply_monitor(Monitor& monitor) noexcept;

/// Chooses and starts; later calls return the first one's choice and say so once if `config` asks for another.
OPAL_EXPORT const Choice& start_monitor(const Config& config);

/// What start_monitor chose; null before.
OPAL_EXPORT const Choice* chosen_monitor() noexcept;

/// Proof, in this very process with whatever is preloaded and hooked, that memory does not leave unseen: makes it go by
/// munmap, mremap, mmap over it, madvise, and as malloc's free and realloc do it, and looks for the report of
/// `monitor`, which has started.  Errors: not_supported, naming the way that went unseen.
Result<void> self_test(Monitor& monitor) noexcept;

std::unique_ptr<Monitor> make_patcher();
std::unique_ptr<Monitor> make_userfaultfd();

}  // namespace opal::memory
