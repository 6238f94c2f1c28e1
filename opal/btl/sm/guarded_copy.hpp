// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/guarded_copy.hpp — memcpy from or to another process's pages, whose owner may end at any moment: where
// the kernel would answer with SIGBUS or SIGSEGV, the copy stops and says so. While no copy runs in the thread the
// signals go where they went before.  Threads: any; the handlers are installed once per process, at the first use, and
// forward what is not theirs.
#pragma once
#include <cstddef>

#include "opal/core/export.hpp"

namespace opal::btl::sm {

/// False: part of one side is not there any more; what had been copied is unspecified.
[[nodiscard]] OPAL_EXPORT bool guarded_copy(std::byte* to, const std::byte* from, std::size_t size) noexcept;

}  // namespace opal::btl::sm
