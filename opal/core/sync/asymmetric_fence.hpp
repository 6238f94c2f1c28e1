// SPDX-License-Identifier: Apache-2.0
// opal/core/sync/asymmetric_fence.hpp — a fence in two halves of unequal cost.  The fast half, of frequent operations,
// only stops reordering by the compiler.  The slow half, of rare operations, makes all threads of the other side
// execute a fence (Linux membarrier(2); compare P1202 and folly).  A fast and a slow half together act as two seq_cst
// fences: if each side stores before its half and loads after it, at least one side sees the other's store.
//
// | among                        | fast half           | slow half            |
// | threads of this process      | keep_order()        | make_all_fence()     |
// | processes that share memory  | sender_fence(true)  | receiver_fence(true) |
//
// If the kernel refuses membarrier from the start, fast() and accept_remote_fences() return false.  Threads: both
// halves are then full fences of the caller.  Processes: both sides call sender_fence(false) and receiver_fence(false),
// which are full fences.
//
// The kernel may also refuse later, after a program has installed a seccomp filter.  Then each call of the slow half
// waits for kGrace instead.  This suffices because a processor empties its store buffer within a bounded time, at the
// latest at an interrupt, so also before a preemption (Morrison and Afek, "Temporally bounding TSO for fence-free
// asymmetric synchronization", ASPLOS 2015, with bounds far below kGrace).
// When libopal is loaded it registers the process with the kernel for both rows of the table.
// Threads: safe from any; no allocation, errno is kept.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/sync/fence.hpp"

namespace opal {

// ---- Processes that share memory.  A sender publishes a message, then loads the receiver's sleep state.  A receiver
// stores its sleep state, then polls for messages.  Senders do this for each message, receivers once per sleep, so the
// receiver fences for both.  If processes outnumber cores, senders fence themselves: there receivers sleep often, and
// an interrupt of the other cores for each sleep costs more than the senders' fences.

/// Registers this process as a target of receiver_fence() of other processes.  False: the kernel does not support it.
OPAL_EXPORT bool accept_remote_fences() noexcept;

/// The receiver's half, between its store and its poll.  `pays`: also makes each process of this host that called
/// accept_remote_fences() execute a fence, a system call; else this is only a fence of the caller.
OPAL_EXPORT void receiver_fence(bool pays) noexcept;

/// The sender's half, between its store and its load.  `paid`: the receiver calls receiver_fence(true) and the sender's
/// process has accepted remote fences; else this is a full fence.
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

/// Nanoseconds.  A store buffer of 72 stores that all miss the caches needs about 10 us.
inline constexpr std::uint64_t kGrace = 1'000'000;

/// True if keep_order() suffices as the fast half; false: the caller needs a full fence.
[[nodiscard]] inline bool fast() noexcept { return detail::expedited.load(std::memory_order_relaxed); }

/// The fast half if fast() is true: a compiler barrier.
inline void keep_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// The slow half: a system call, and an interrupt on every processor that runs a thread of this process.  If the kernel
/// refuses after it granted the registration, it waits for kGrace.
OPAL_EXPORT void make_all_fence() noexcept;

/// For an atfork handler of the child: registers the child, if the parent was registered.
OPAL_EXPORT void restart_in_child() noexcept;

/// How membarrier behaves in a test.
enum class Kernel : std::uint8_t {
  as_it_is,
  refuses,        ///< it has always failed
  refuses_later,  ///< it has granted the registration and fails from now on
};
/// For tests.  Requires: no other thread calls a function of this header.
OPAL_EXPORT void pretend_for_tests(Kernel kernel) noexcept;

}  // namespace asymmetric_fence
}  // namespace opal
