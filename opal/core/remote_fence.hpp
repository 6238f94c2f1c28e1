// SPDX-License-Identifier: Apache-2.0
// opal/core/remote_fence.hpp — who pays that no wake-up between processes is lost.
// A sender publishes something in shared memory and then looks whether the receiver sleeps; a receiver says that it
// sleeps and then looks for what was published.  One of the two must see the other, which takes a full fence between
// store and load on both sides.  Senders do this for every message, receivers once per sleep.  So the receiver pays for
// both: membarrier(2) makes every running thread of every registered process pass a full fence; a sender then needs
// none (the compiler is held back).  Where the kernel does not offer it, senders fence themselves; also where processes
// outnumber cores, since there receivers sleep all the time, and interrupting the other cores for it costs more than
// all of the fences.
// Threads: any.
#pragma once
#include <atomic>

#include "opal/core/export.hpp"
#include "opal/core/fence.hpp"

namespace opal {

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

}  // namespace opal
