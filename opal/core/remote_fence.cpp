// SPDX-License-Identifier: Apache-2.0
#include "opal/core/remote_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace opal {
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

bool accept_remote_fences() noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void receiver_fence(bool pays) noexcept {
  full_fence();
  if (!pays) return;
  (void)membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
  full_fence();
}

namespace {
// When the library is loaded a process has one thread, as a rule.  Later the kernel would wait for an RCU grace period
// until it has registered a process: 10 ms and more of each program's start.
[[maybe_unused]] const bool registered_early = accept_remote_fences();
}  // namespace

}  // namespace opal
