// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/attention.hpp — short accesses to memory of this host that is not mapped go as messages while
// their target polls inside MPI: the target executes a message in a fraction of the time of a system call.  While the
// target computes, the origin uses the transport's put and get, since nothing may wait for the target then.
// The state is in shared memory: for each target a flag that it polls, and for each pair of ranks the number of
// messages that the origin has sent for this reason (counted messages).
//   origin                                        target, at the end of its polling
//   1. counts one message more                    1. clears the flag
//   2. full fence                                 2. full fence
//   3. flag is clear: takes the count back;       3. progresses until it has executed as many messages of each origin
//      else sends the message                        as that has counted, at most for kLongestAttention
// One of the fences is the first, so either the origin sees the clear flag, or the target sees the count.
// Only processes with one thread in MPI and a core of their own take part, unless am_spin is 0.
// Threads: as Target.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "opal/core/sync/fence.hpp"

namespace mpi_shim::rma {

/// For origins that are not scheduled between count and message, or die there: the message is executed in a later call.
inline constexpr std::chrono::milliseconds kLongestAttention{1};

/// One per target, in its Control.
class PollingFlag {
 public:
  void set(bool polls) noexcept { polls_.store(polls ? 1 : 0, std::memory_order_release); }
  [[nodiscard]] bool is_set() const noexcept { return polls_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<std::uint32_t> polls_{0};
};

/// The number of counted messages from one rank of the host to another; the origin writes it.
class MessageCount {
 public:
  /// Counts a message if the target polls; false: it does not, and nothing is counted.
  [[nodiscard]] bool count(const PollingFlag& target) noexcept {
    if (!target.is_set()) return false;
    const std::uint32_t before = count_.load(std::memory_order_relaxed);
    count_.store(before + 1, std::memory_order_relaxed);
    opal::full_fence();
    if (target.is_set()) return true;
    count_.store(before, std::memory_order_relaxed);
    return false;
  }
  [[nodiscard]] std::uint32_t get() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> count_{0};
};
static_assert(sizeof(MessageCount) == 4 && sizeof(PollingFlag) == 4, "layout in shared memory");

}  // namespace mpi_shim::rma
