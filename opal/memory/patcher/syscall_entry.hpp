// SPDX-License-Identifier: Apache-2.0
// opal/memory/patcher/syscall_entry.hpp — the way from a trampoline, which has a system call's registers, into C++ and
// back.
#pragma once
#include "opal/core/export.hpp"

namespace opal::memory {

/// Finds out what this processor has to save.  Before the first trampoline is reachable.
OPAL_EXPORT void prepare_syscall_entry() noexcept;

}  // namespace opal::memory

/// Called by trampolines only; not a function of C++.
extern "C" __attribute__((visibility("hidden"))) void opal_memory_syscall_entry();
