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

std::atomic<bool> refused{false};  // a test simulates refusals

/// membarrier(command); true if it succeeds.
bool membarrier(int command) noexcept { return !refused && raw_syscall(SYS_membarrier, command, 0) == 0; }

/// Registers the process, which may be registered already, and makes all its threads fence.  True if both succeed.
bool register_and_fence() noexcept {
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/// Waits until the stores that other processors have executed are visible.  It spins, because a seccomp filter that
/// refuses membarrier may also refuse to sleep.
void wait_for_store_buffers() noexcept {
  const std::uint64_t end = now_ns() + kGrace;
  while (now_ns() < end) {
  }
}

}  // namespace

void make_all_fence() noexcept {
  if (!fast()) return full_fence();
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || register_and_fence()) return;
  wait_for_store_buffers();
  full_fence();
}

void restart_in_child() noexcept {
  if (fast()) detail::expedited = register_and_fence();
}

void pretend_for_tests(Kernel kernel) noexcept {
  refused = kernel != Kernel::as_it_is;
  if (kernel != Kernel::refuses_later) detail::expedited = register_and_fence();
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
  if (!membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) [[unlikely]]
    asymmetric_fence::wait_for_store_buffers();
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
