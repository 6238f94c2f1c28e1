// SPDX-License-Identifier: Apache-2.0
// opal/am/sleep.hpp — one sleep on several Contexts, for a thread that has more than one to wait for (a program of
// lanes: docs/design/lanes.md).  Whoever waits on one Context only calls its wait_until(). Threads: any; all Contexts
// at thread level `multiple`.
#pragma once
#include <chrono>
#include <cstddef>
#include <span>

#include "opal/am/context.hpp"
#include "opal/core/export.hpp"

namespace opal::am {

class OPAL_EXPORT Sleep {
 public:
  static constexpr std::size_t kMost = 16;  ///< Contexts of either kind

  /// Sleeps until something may have happened at one of the Contexts, at most for `timeout` (negative: for ever), and
  /// not at all unless `missing()`.  The caller then progresses them and looks again.
  /// `mine`: what makes missing() false comes by them, also when another thread progresses them meanwhile: it is never
  /// missed.  missing() is called without a lock.  Progress on `others` by another thread wakes nobody, and may leave
  /// them unwatched from then on: the timeout bounds how long.  One whose lock is taken is left to whoever has it.
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
