// SPDX-License-Identifier: Apache-2.0
// opal/memory/self_test.hpp — proof, in this very process with whatever is preloaded and hooked, that memory does not
// leave unseen: by munmap, mremap, mmap over it, madvise, and as malloc's free and realloc do it.
#pragma once
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::memory {

/// Makes memory go in each way and looks for the report.  Errors: not_supported, naming the way that went unseen.
OPAL_EXPORT Result<void> self_test() noexcept;

}  // namespace opal::memory
