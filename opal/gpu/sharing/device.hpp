// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/device.hpp — devices by a name that means the same in every process.  Ordinals do not: under
// different CUDA_VISIBLE_DEVICES the same number is another device.  Threads: everything from any thread.
#pragma once
#include <array>
#include <cstddef>
#include <optional>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::gpu {

/// The device's UUID; safe to send.
struct DeviceId {
  std::array<std::byte, 16> uuid{};
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

/// Errors: not_supported (no driver, or not initialised), invalid_argument (no such ordinal).
OPAL_EXPORT Result<DeviceId> device_id(int ordinal) noexcept;

/// Its ordinal here; nothing when this process does not see it (CUDA_VISIBLE_DEVICES, another machine).
OPAL_EXPORT Result<std::optional<int>> ordinal_of(const DeviceId& device) noexcept;

/// Whether contexts on `ordinal` can map memory of `peer`, both ordinals here; of the same device always.
/// Errors: as device_id().
OPAL_EXPORT Result<bool> can_access(int ordinal, int peer) noexcept;

}  // namespace opal::gpu
