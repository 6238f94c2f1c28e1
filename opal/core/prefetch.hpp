// SPDX-License-Identifier: Apache-2.0
// opal/core/prefetch.hpp — a hint that a cache line will be written soon.  Threads: any.
#pragma once

namespace opal {

/// Has the line of `address` become this core's own, so that a store to it need not wait for other cores to give it up.
/// (Compilers turn __builtin_prefetch(address, 1) into the hint for reading where they do not know the processor; those
/// of x86-64 that do not know this instruction take it for none.)
inline void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace opal
