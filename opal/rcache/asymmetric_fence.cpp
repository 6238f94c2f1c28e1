// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "opal/memory/raw_syscall.hpp"

namespace opal::rcache::asymmetric_fence {
namespace detail {
constinit std::atomic<bool> expedited{false};
}
namespace {

std::atomic<bool> refused{false};

bool ask(int command) noexcept { return !refused && memory::raw_syscall(SYS_membarrier, command, 0) == 0; }

/// A process registers first; the same again does nothing.
bool ask_registered() noexcept {
  return ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace

void start() noexcept {
  static const bool once = [] {
    detail::expedited = ask_registered();
    return true;
  }();
  (void)once;
}

namespace {
// While there is one thread only; see barrier.cpp of btl/sm.
[[maybe_unused]] const bool started_early = [] {
  start();
  return true;
}();
}  // namespace

bool make_all_fence() noexcept {
  if (ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || ask_registered()) return true;
  detail::expedited = false;
  return false;
}

void restart_in_child() noexcept {
  if (fast()) detail::expedited = ask_registered();
}

void refuse_for_tests(bool refuse) noexcept {
  refused = refuse;
  detail::expedited = ask_registered();
}

}  // namespace opal::rcache::asymmetric_fence
