// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/attention.hpp — accesses to memory of this host that is not mapped go as messages while their
// target polls inside MPI: the target executes a short message in a fraction of the time of a system call, and the
// pieces of a long put are copied in and out at the same time.  While the target computes, the origin uses the
// transport's put and get, since nothing may wait for the target then.  So it does while the target sleeps inside MPI,
// but after kAccessesPerWake such accesses it wakes the target, which then polls for a while.
// The state is in shared memory: for each target its Attention, and for each pair of ranks the number of messages that
// the origin has sent for this reason (counted messages; the last piece of an access counts).
//   origin                                        target, at the end of its polling
//   1. counts one message more                    1. ends the state `polls`
//   2. full fence                                 2. full fence
//   3. target does not poll: takes the count      3. progresses until it has executed as many messages of each origin
//      back; else sends the message                  as that has counted, at most for kLongestAttention
// One of the fences is the first, so either the origin sees the end of `polls`, or the target sees the count.
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

/// Direct accesses of one origin to a target that sleeps, between two wake messages.
inline constexpr std::uint32_t kAccessesPerWake = 8;

/// What a target does; one per target, in its Control.  All-zero bytes: it computes.
class Attention {
 public:
  enum class State : std::uint32_t { computes, polls, sleeps };

  void set(State state) noexcept { state_.store(state, std::memory_order_release); }
  [[nodiscard]] bool polls() const noexcept { return state_.load(std::memory_order_relaxed) == State::polls; }
  [[nodiscard]] bool sleeps() const noexcept { return state_.load(std::memory_order_relaxed) == State::sleeps; }

 private:
  std::atomic<State> state_{State::computes};
};

/// The number of counted messages from one rank of the host to another; the origin writes it.
class MessageCount {
 public:
  /// Counts a message if the target polls; false: it does not, and nothing is counted.
  [[nodiscard]] bool count(const Attention& target) noexcept {
    if (!target.polls()) return false;
    const std::uint32_t before = count_.load(std::memory_order_relaxed);
    count_.store(before + 1, std::memory_order_relaxed);
    opal::full_fence();
    if (target.polls()) return true;
    count_.store(before, std::memory_order_relaxed);
    return false;
  }
  [[nodiscard]] std::uint32_t get() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> count_{0};
};
static_assert(sizeof(MessageCount) == 4 && sizeof(Attention) == 4, "layout in shared memory");

}  // namespace mpi_shim::rma
