// SPDX-License-Identifier: Apache-2.0
// opal/rcache/asymmetric_fence.hpp — a fence of two unequal halves: many fast threads only keep their compiler from
// reordering, one slow thread makes all of them fence, wherever they are (Linux membarrier(2), PRIVATE_EXPEDITED; the
// asymmetric fences of P1202 and of folly).  Together they order as two seq_cst fences do: of a store before and a load
// after either half, one side sees the other's.
// Where the kernel refuses, the fast half is a fence, too.
// Threads: safe from any; no allocation, errno is kept.
#pragma once
#include <atomic>

#include "opal/core/export.hpp"

namespace opal::rcache::asymmetric_fence {

namespace detail {
OPAL_EXPORT extern constinit std::atomic<bool> expedited;
}

/// Asks the kernel, once; before the first use of the other two.
void start() noexcept;

/// True while the fast half needs no fence of the processor.
[[nodiscard]] inline bool fast() noexcept { return detail::expedited.load(std::memory_order_relaxed); }

/// The fast half where fast() is true.
inline void keep_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// The slow half: a system call, and an interrupt on every processor that runs a thread of this process.  False when
/// the kernel refuses what it had granted: fast() is false from then on, but what others did before is not ordered.
[[nodiscard]] bool make_all_fence() noexcept;

/// In a forked child, which has to ask anew.
void restart_in_child() noexcept;

/// For tests: as in a process whose kernel refuses.
OPAL_EXPORT void refuse_for_tests(bool refuse) noexcept;

}  // namespace opal::rcache::asymmetric_fence
