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

constexpr std::uint64_t kBeingLost = UINT64_MAX;

std::atomic<bool> refused{false};
/// When the grace after a loss ends; 0: there was no loss, or it has ended.
std::atomic<std::uint64_t> grace_ends{0};

bool ask(int command) noexcept { return !refused && raw_syscall(SYS_membarrier, command, 0) == 0; }

/// A process registers first; the same again does nothing.
bool ask_registered() noexcept {
  return ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/// A thread that sees the loss also sees that there is a grace, and the grace begins when all can see the loss.
void lose() noexcept {
  grace_ends.store(kBeingLost, std::memory_order_seq_cst);
  detail::expedited.store(false, std::memory_order_seq_cst);
  grace_ends.store(now_ns() + kGrace, std::memory_order_seq_cst);
}

void wait_for_end_of_grace() noexcept {
  while (grace_ends.load(std::memory_order_acquire) != 0) {
    // Not by sleeping: a filter that refuses membarrier may refuse that, too.
    std::uint64_t end = grace_ends.load(std::memory_order_acquire);
    if (end != kBeingLost && now_ns() >= end) grace_ends.compare_exchange_strong(end, 0);
  }
}

}  // namespace

void start() noexcept {
  static const bool once = [] {
    detail::expedited = ask_registered();
    return true;
  }();
  (void)once;
}

void make_all_fence() noexcept {
  if (detail::expedited.load(std::memory_order_seq_cst)) {
    if (ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || ask_registered()) return;
    lose();
  }
  wait_for_end_of_grace();
}

void restart_in_child() noexcept {
  if (fast()) detail::expedited = ask_registered();
  grace_ends = 0;  // the threads that it is for are not here
}

void pretend_for_tests(Kernel kernel) noexcept {
  refused = kernel != Kernel::as_it_is;
  if (kernel == Kernel::refuses_later) return;
  grace_ends = 0;
  detail::expedited = ask_registered();
}

}  // namespace asymmetric_fence

using asymmetric_fence::ask;

bool accept_remote_fences() noexcept {
  const long commands = asymmetric_fence::refused ? 0 : raw_syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         ask(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

void receiver_fence(bool pays) noexcept {
  full_fence();
  if (!pays) return;
  if (!ask(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) [[unlikely]] {
    const std::uint64_t end = now_ns() + asymmetric_fence::kGrace;
    while (now_ns() < end) {
    }
  }
  full_fence();
}

namespace {
// When the library is loaded a process has one thread, as a rule.  Later the kernel would wait for an RCU grace period
// until it has registered a process: 10 ms and more of each program's start.
[[maybe_unused]] const bool kRegisteredEarly = [] {
  asymmetric_fence::start();
  return accept_remote_fences();
}();
}  // namespace

}  // namespace opal
