// SPDX-License-Identifier: Apache-2.0
// opal/memory/address_space/mapping_calls.hpp — performs the system calls that change mappings, and reports before and
// after each call which memory it releases and maps.  The patched code calls perform() instead of the kernel.
// Threads: any.  It runs inside malloc, free and the dynamic loader, so it allocates nothing, keeps errno, and makes
// its system calls without libc.
#pragma once
#include <array>

#include "opal/core/export.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

struct SystemCall {
  long number = 0;
  std::array<long, 6> arguments{};
};

/// [address, +length) rounded out to whole pages, from the arguments of a call.
inline Range range_of(long address, long length) noexcept {
  return Range::pages(static_cast<std::uintptr_t>(address), static_cast<std::uintptr_t>(length));
}

/// True for the system calls that can change mappings or discard pages: the patcher redirects them to perform().
[[nodiscard]] bool is_watched(long number) noexcept;

/// Performs the call with its reports.  Returns the kernel's result, a value or -errno.  Released memory is reported
/// before the call: after it another thread may have mapped the same addresses anew.
OPAL_EXPORT long perform(const SystemCall& call) noexcept;

/// Performs the call without reports.  Returns the kernel's result.
long call_kernel(const SystemCall& call) noexcept;

}  // namespace opal::memory
