// SPDX-License-Identifier: Apache-2.0
// opal/memory/raw_syscall.hpp — core/raw_syscall.hpp under the name that this folder uses.
#pragma once
#include "opal/core/raw_syscall.hpp"

namespace opal::memory {
using opal::raw_syscall;
}  // namespace opal::memory
