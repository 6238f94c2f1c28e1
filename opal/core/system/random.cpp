// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/random.hpp"

#include <sys/random.h>

#include <cstdlib>

namespace opal {

std::uint64_t random_u64() noexcept {
  std::uint64_t bits = 0;
  // Requests of up to 256 bytes are never interrupted once the kernel's pool is seeded.
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) std::abort();
  return bits;
}

}  // namespace opal
