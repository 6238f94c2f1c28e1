// SPDX-License-Identifier: Apache-2.0
// opal/core/fence.hpp — a full fence that every build of ours accepts.  Threads: any.
#pragma once

namespace opal {

/// What std::atomic_thread_fence(seq_cst) is, which g++ refuses under ThreadSanitizer.
inline void full_fence() noexcept { __sync_synchronize(); }

}  // namespace opal
