// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/fence.hpp — fences for all builds.  g++ rejects std::atomic_thread_fence under ThreadSanitizer.
#pragma once
#include <atomic>

#include "opal/core/sanitizer.hpp"

namespace opal {

/// A fence as std::atomic_thread_fence(seq_cst).
inline void full_fence() noexcept { __sync_synchronize(); }

/// A fence as std::atomic_thread_fence(acq_rel): it orders all but an earlier store with a later load.  No instruction
/// on x86.
inline void ordering_fence() noexcept {
#if OPAL_THREAD_SANITIZER
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

}  // namespace opal
