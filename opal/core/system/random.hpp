// SPDX-License-Identifier: Apache-2.0
// opal/core/system/random.hpp — random numbers from the kernel.  Threads: any.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace opal {

/// 64 random bits that no other process can guess.  Aborts the process if the kernel's random source fails.
inline std::uint64_t random_u64() noexcept {
  std::uint64_t bits = 0;
  if (::getentropy(&bits, sizeof bits) != 0) std::abort();
  return bits;
}

}  // namespace opal
