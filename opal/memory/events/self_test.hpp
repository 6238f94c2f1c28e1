// SPDX-License-Identifier: Apache-2.0
// opal/memory/events/self_test.hpp — proof, in this very process with whatever is preloaded and hooked, that memory
// does not leave unseen: by munmap, mremap, mmap over it, madvise, and as malloc's free and realloc do it.
#pragma once
#include "opal/core/result.hpp"

namespace opal::memory {

class Monitor;

/// Makes memory go in each way and looks for the report of `monitor`, which has started.  Errors: not_supported, naming
/// the way that went unseen.
Result<void> self_test(Monitor& monitor) noexcept;

}  // namespace opal::memory
