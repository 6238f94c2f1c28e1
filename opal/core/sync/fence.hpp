// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/fence.hpp — a fence for all builds.  g++ rejects std::atomic_thread_fence under ThreadSanitizer.
#pragma once

namespace opal {

/// A fence as std::atomic_thread_fence(seq_cst).
inline void full_fence() noexcept { __sync_synchronize(); }

}  // namespace opal
