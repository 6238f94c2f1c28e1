// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/fence.hpp — fences that every build of ours accepts: g++ refuses std::atomic_thread_fence under
// ThreadSanitizer.  Threads: any.
#pragma once
#include <atomic>

#include "opal/core/sanitizer.hpp"

namespace opal {

/// std::atomic_thread_fence(seq_cst).
inline void full_fence() noexcept { __sync_synchronize(); }

/// std::atomic_thread_fence(acq_rel): only a later load may overtake an earlier store.  No instruction on x86.
inline void ordering_fence() noexcept {
#if OPAL_THREAD_SANITIZER
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

}  // namespace opal
