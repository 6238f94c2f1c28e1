// SPDX-License-Identifier: Apache-2.0
// opal/core/system/random.hpp — random numbers from the kernel.  Threads: any.
#pragma once
#include <cstdint>

#include "opal/core/export.hpp"

namespace opal {

/// 64 random bits that no other process can guess.  Aborts the process if the kernel's random source fails.
OPAL_EXPORT std::uint64_t random_u64() noexcept;

}  // namespace opal
