// SPDX-License-Identifier: Apache-2.0
// opal/memory/events/events.hpp — reports released memory to listeners, such as registration caches.  There is one list
// of listeners per process.  The memory monitor calls released() before the memory is released, on the thread that
// releases it.
// Threads: safe from any thread.  released() may run inside free() or munmap(), so it allocates nothing, takes no lock
// and makes no system call.  The same holds for listeners, but they may take locks under which no thread allocates.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

class Listener {
 public:
  /// The pages of `range` are about to be unmapped, replaced or emptied, or have just been: all state about them is
  /// invalid.
  virtual void released(Range range) noexcept = 0;

  /// `range` has just been mapped.  If a listener still has state about it, the monitor missed the release of the
  /// memory that was there (by a system call instruction outside libc).
  virtual void mapped(Range range) noexcept { (void)range; }

 protected:
  ~Listener() = default;
};

/// Most listeners at a time.  A Context has about two for each of its transports.
inline constexpr std::size_t kMostListeners = 4096;

/// Adds a listener, which must exist until remove_listener() returns.  Errors: limit_reached, no_memory.
OPAL_EXPORT Result<void> add_listener(Listener& listener) noexcept;

/// Removes a listener; no call of it is in flight on return.  Not from inside an event.  Unknown ones are ignored.
OPAL_EXPORT void remove_listener(Listener& listener) noexcept;

/// Call the function of the same name of every listener.  An empty range is not reported.
OPAL_EXPORT void released(Range range) noexcept;
OPAL_EXPORT void mapped(Range range) noexcept;

/// Marks a release in flight.  perform() makes it before the report and destroys it after the system call: a device
/// that registers memory of `range` meanwhile may pin the old pages.  An empty range marks nothing.
class OPAL_EXPORT Releasing {
 public:
  explicit Releasing(Range range) noexcept;
  Releasing(const Releasing&) = delete;
  Releasing& operator=(const Releasing&) = delete;
  ~Releasing();

 private:
  int place_;  // index of its entry in the table of releases, or a negative constant of events.cpp
};

/// True while a Releasing overlaps `range`; also if too many releases are in flight to record them all.
/// Requires: the caller holds a lock that its listener takes in released().  Then each release is either seen here, or
/// reported after this call.
[[nodiscard]] OPAL_EXPORT bool being_released(Range range) noexcept;

namespace detail {
/// Number of listeners and followed MappingTables.  At 0 a patched system call goes to the kernel without perform().
OPAL_EXPORT extern std::atomic<std::uint32_t> interested;
}  // namespace detail

}  // namespace opal::memory
