// SPDX-License-Identifier: Apache-2.0
// opal/am/sleep.hpp — one sleep on several Contexts, for a thread that waits for more than one (docs/design/vcis.md).
// A thread that waits for one Context calls its wait_until().
// Threads: any; all Contexts are at thread level `multiple`.
#pragma once
#include <chrono>
#include <cstddef>
#include <span>

#include "opal/am/context.hpp"
#include "opal/core/export.hpp"

namespace opal::am {

class OPAL_EXPORT Sleep {
 public:
  static constexpr std::size_t kMost = 16;  ///< most Contexts in `mine`, and in `others`

  /// Sleeps until an event may have occurred at one of the Contexts, at most for `timeout` (negative: for ever).
  /// Returns at once if `missing()` is false.  The caller then calls progress() and evaluates its condition again.
  /// `mine`: Contexts whose progress may make missing() false.  No event of these is missed, also if another thread
  /// calls their progress() meanwhile.  missing() is called without a lock.
  /// `others`: best effort.  Progress by another thread does not wake this one, and may leave the Context unwatched
  /// until the timeout.  A Context whose lock is held is not watched.
  template <class Missing>
  static void on(std::span<Context* const> mine, std::span<Context* const> others, Missing missing,
                 std::chrono::milliseconds timeout) noexcept {
    sleep(
        mine, others, [](void* object) noexcept -> bool { return (*static_cast<Missing*>(object))(); }, &missing,
        timeout);
  }

 private:
  static void sleep(std::span<Context* const> mine, std::span<Context* const> others, bool (*missing)(void*) noexcept,
                    void* object, std::chrono::milliseconds timeout) noexcept;
};

}  // namespace opal::am
