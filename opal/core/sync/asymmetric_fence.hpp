// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/asymmetric_fence.hpp — a fence of two unequal halves: many fast threads only keep their compiler from
// reordering, one slow thread makes all of them fence, wherever they are (Linux membarrier(2); the asymmetric fences of
// P1202 and of folly).  Together they order as two seq_cst fences do: of a store before and a load after either half,
// one side sees the other's.
//
// | among                        | fast half           | slow half            |
// | threads of this process      | keep_order()        | make_all_fence()     |
// | processes that share memory  | sender_fence(true)  | receiver_fence(true) |
//
// Where the kernel refuses from the start, the fast half is a fence, too: fast() is false, accept_remote_fences() is
// false and both sides agree on sender_fence(false).  It may also refuse later (a seccomp filter installed by then).
// Then the slow half waits instead: processors empty their store buffers within a bounded time, at the latest with an
// interrupt, so also before a preemption (Morrison and Afek, "Temporally bounding TSO for fence-free asymmetric
// synchronization", ASPLOS 2015, which builds on it with bounds far below kGrace).
//
// Within a process the wait is needed once, because the fast half looks at fast() *after* its store.  Of a thread that
// then reads `true` although the grant was lost before, only the store buffer is behind: the load was made before the
// loss came to be seen, the store before the load in program order.  A thread that reads `false` fences itself.  Other
// processes do not see the loss: receiver_fence() waits each time.
// Threads: safe from any; no allocation, errno is kept.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/sync/fence.hpp"

namespace opal {

// ---- Processes that share memory.  A sender publishes something and then looks whether the receiver sleeps; a
// receiver says that it sleeps and then looks for what was published.  Senders do this for every message, receivers
// once per sleep, so the receiver pays for both.  Where processes outnumber cores senders fence themselves: receivers
// sleep all the time there, and interrupting the other cores for it costs more than all of the fences.

/// Registers this process, so that receiver_fence() of others reaches it.  False: the kernel cannot.
OPAL_EXPORT bool accept_remote_fences() noexcept;

/// Between a receiver's store and its look for messages.  `pays`: for senders too, in every process of this machine
/// that accepts it.
OPAL_EXPORT void receiver_fence(bool pays) noexcept;

/// Between a sender's store and its load.  `paid`: both sides' processes accept remote fences, and the receiver pays.
inline void sender_fence(bool paid) noexcept {
  if (paid) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    full_fence();
  }
}

// ---- Threads of this process.

namespace asymmetric_fence {

namespace detail {
OPAL_EXPORT extern constinit std::atomic<bool> expedited;
}

/// Nanoseconds; a store buffer of 72 stores that all miss to memory takes about ten thousand.
inline constexpr std::uint64_t kGrace = 1'000'000;

/// Asks the kernel, once; before the first use of the other two.
OPAL_EXPORT void start() noexcept;

/// True while the fast half needs no fence of the processor.  To be asked after the store that is to be ordered, with
/// keep_order() in between.
[[nodiscard]] inline bool fast() noexcept { return detail::expedited.load(std::memory_order_relaxed); }

/// The fast half where fast() is true.
inline void keep_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// The slow half: a system call, and an interrupt on every processor that runs a thread of this process.  When the
/// kernel refuses what it had granted, fast() is false from then on, and this waits for kGrace, once.
OPAL_EXPORT void make_all_fence() noexcept;

/// In a forked child, which has to ask anew.
OPAL_EXPORT void restart_in_child() noexcept;

enum class Kernel : std::uint8_t {
  as_it_is,
  refuses,        ///< and has always done so
  refuses_later,  ///< what it has granted before start()
};
/// For tests, while no other thread uses this.
OPAL_EXPORT void pretend_for_tests(Kernel kernel) noexcept;

}  // namespace asymmetric_fence
}  // namespace opal
