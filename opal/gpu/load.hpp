// SPDX-License-Identifier: Apache-2.0
// opal/gpu/load.hpp — loading the driver.  Private to libopal.
#pragma once
#include "opal/gpu/gpu.hpp"

namespace opal::gpu {

/// Called once.
Status load_driver(const Config& config);

/// What start() was given; only while active().
const Config& started_with() noexcept;

}  // namespace opal::gpu
