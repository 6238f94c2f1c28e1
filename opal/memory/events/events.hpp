// SPDX-License-Identifier: Apache-2.0
// opal/memory/events/events.hpp — tells users that keep knowledge about memory (registration caches) that pages went
// away. One list per process.  A monitor calls released(); where it can, before the memory goes, on the thread that
// unmaps. Threads: everything from any thread.  released() allocates nothing, takes no lock and makes no system call,
// so that it may run inside free() or munmap(); neither may a listener, beyond locks under which nothing is allocated.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

class Listener {
 public:
  /// The pages of `range` are about to be unmapped, replaced or emptied, or just were: what is known about them is
  /// void.
  virtual void released(Range range) noexcept = 0;

  /// `range` has just been mapped.  Whatever a listener still knows about it is of memory whose unmapping went unseen
  /// (by a system call instruction outside libc).
  virtual void mapped(Range range) noexcept { (void)range; }

 protected:
  ~Listener() = default;
};

/// Calls `listener` from now on.  Errors: no_memory.
OPAL_EXPORT Result<void> add_listener(Listener& listener) noexcept;

/// Ends that; no call is in flight when this returns.  Not from inside an event.  Unknown listeners are ignored.
OPAL_EXPORT void remove_listener(Listener& listener) noexcept;

/// Reports to every listener.  An empty range is not reported.
OPAL_EXPORT void released(Range range) noexcept;
OPAL_EXPORT void mapped(Range range) noexcept;

/// Exists from before the report of a release until the kernel has acted: a thread that registers memory of `range`
/// meanwhile may get the old pages.  An empty range counts for nothing.
class OPAL_EXPORT Releasing {
 public:
  explicit Releasing(Range range) noexcept;
  Releasing(const Releasing&) = delete;
  Releasing& operator=(const Releasing&) = delete;
  ~Releasing();

 private:
  int place_;
};

/// True while a Releasing overlaps `range`.  To be asked under a lock that the listener takes in released(): then each
/// release is either seen here, or reported after this call.
[[nodiscard]] OPAL_EXPORT bool being_released(Range range) noexcept;

namespace detail {
/// Of a monitor that reports after the memory has gone; null: every report is made before.
OPAL_EXPORT extern std::atomic<void (*)() noexcept> wait_for_reports;
/// How many have a reason to see calls that change mappings: zero lets a patched system call go straight through.
OPAL_EXPORT extern std::atomic<std::uint32_t> interested;
}  // namespace detail

/// Returns when whatever has gone by now, on any thread, has been reported: to be called before what is known of memory
/// is relied upon, and without locks that a listener takes.  A load where reports come first.
inline void settle() noexcept {
  if (auto* const wait = detail::wait_for_reports.load(std::memory_order_relaxed); wait != nullptr) [[unlikely]]
    wait();
}

}  // namespace opal::memory
