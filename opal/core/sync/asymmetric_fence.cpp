// SPDX-License-Identifier: Apache-2.0
#include "opal/core/sync/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "opal/core/clock.hpp"
#include "opal/core/system/raw_syscall.hpp"

namespace opal {
namespace asymmetric_fence {
namespace detail {
constinit std::atomic<bool> expedited{false};
}
namespace {

// After the first refusal by a kernel that has granted membarrier before, calls of the slow half wait for kGrace.
constexpr std::uint64_t kRecording = UINT64_MAX;  // value of grace_ends during record_refusal()

std::atomic<bool> refused{false};  // a test simulates refusals
/// now_ns() at which the wait ends; 0: no call has to wait.
std::atomic<std::uint64_t> grace_ends{0};

/// membarrier(command); true if it succeeds.
bool membarrier(int command) noexcept { return !refused && raw_syscall(SYS_membarrier, command, 0) == 0; }

/// Registers the process, which may be registered already, and makes all its threads fence.  True if both succeed.
bool register_and_fence() noexcept {
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/// Records the refusal.  Order: a thread that sees expedited == false also sees grace_ends != 0, and kGrace starts
/// after expedited is false for all threads.
void record_refusal() noexcept {
  grace_ends.store(kRecording, std::memory_order_seq_cst);
  detail::expedited.store(false, std::memory_order_seq_cst);
  grace_ends.store(now_ns() + kGrace, std::memory_order_seq_cst);
}

void wait_for_end_of_grace() noexcept {
  while (grace_ends.load(std::memory_order_acquire) != 0) {
    // It spins, because a seccomp filter that refuses membarrier may also refuse to sleep.
    std::uint64_t end = grace_ends.load(std::memory_order_acquire);
    if (end != kRecording && now_ns() >= end) grace_ends.compare_exchange_strong(end, 0);
  }
}

}  // namespace

void make_all_fence() noexcept {
  if (detail::expedited.load(std::memory_order_seq_cst)) {
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || register_and_fence()) return;
    record_refusal();
  }
  wait_for_end_of_grace();
}

void restart_in_child() noexcept {
  if (fast()) detail::expedited = register_and_fence();
  grace_ends = 0;  // the child does not have the threads for which the parent waits
}

void pretend_for_tests(Kernel kernel) noexcept {
  refused = kernel != Kernel::as_it_is;
  if (kernel == Kernel::refuses_later) return;
  grace_ends = 0;
  detail::expedited = register_and_fence();
}

}  // namespace asymmetric_fence

using asymmetric_fence::membarrier;

bool accept_remote_fences() noexcept {
  const long commands = asymmetric_fence::refused ? 0 : raw_syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

void receiver_fence(bool pays) noexcept {
  full_fence();
  if (!pays) return;
  if (!membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) [[unlikely]] {
    const std::uint64_t end = now_ns() + asymmetric_fence::kGrace;
    while (now_ns() < end) {
    }
  }
  full_fence();
}

namespace {
// Registers when the library is loaded, because the process usually has one thread then.  With several threads the
// kernel waits for an RCU grace period, which would delay the start of each program by 10 ms or more.
[[maybe_unused]] const bool kRegisteredEarly = [] {
  asymmetric_fence::detail::expedited = asymmetric_fence::register_and_fence();
  return accept_remote_fences();
}();
}  // namespace

}  // namespace opal
