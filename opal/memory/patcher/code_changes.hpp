// SPDX-License-Identifier: Apache-2.0
// opal/memory/patcher/code_changes.hpp — replaces instructions by jumps while other threads may execute them.
// Each instruction has the five bytes of the jump, so no thread is ever between the bytes that change.  In three steps:
// 1. The first two bytes become a jump to itself, where a thread that arrives now waits.
// 2. The other three bytes, which no thread executes now, become those of the new jump.
// 3. The first two bytes become those of the new jump.
// Two bytes within a cache line change by one store, so a thread finds the old or the new ones.  After each step
// membarrier(SYNC_CORE) makes all processors of the process fetch instructions anew.
// Threads: one caller at a time.
#pragma once
#include <span>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/patcher/trampolines.hpp"

namespace opal::memory {

/// Makes each fork() wait until replace_while_threads_run() is done: a child must not get code that jumps to itself.
/// Call it once before.  Errors: no_memory.
OPAL_EXPORT Result<void> hold_forks() noexcept;

/// Applies the patches, to writable code.  Errors: not_supported (the kernel refuses membarrier, or the first two bytes
/// of a patch are in two cache lines); nothing has changed then.
OPAL_EXPORT Result<void> replace_while_threads_run(std::span<const Patch> patches) noexcept;

}  // namespace opal::memory
