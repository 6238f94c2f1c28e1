// SPDX-License-Identifier: Apache-2.0
// opal/memory/shareable_state.hpp — the process's arena.  Threads: any.
#pragma once
#include "opal/memory/shareable_arena.hpp"

namespace opal::memory::shareable {

/// Null: nothing is shareable here.  It lives as long as the process.
[[nodiscard]] Arena* state() noexcept;

/// In a child, whose memory is private.
void forget() noexcept;

}  // namespace opal::memory::shareable
