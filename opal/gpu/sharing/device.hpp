// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/device.hpp — ids of devices that are valid in every process.  Ordinals are not: they depend on
// CUDA_VISIBLE_DEVICES.  Threads: any.
#pragma once
#include <array>
#include <cstddef>
#include <optional>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::gpu {

/// The device's UUID; may be sent to other processes.
struct DeviceId {
  std::array<std::byte, 16> uuid{};
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

/// Errors: not_supported (no driver, or not initialised), invalid_argument (no such ordinal).
OPAL_EXPORT Result<DeviceId> device_id(int ordinal) noexcept;

/// The device's ordinal in this process; nullopt if this process does not see it (CUDA_VISIBLE_DEVICES, another host).
OPAL_EXPORT Result<std::optional<int>> ordinal_of(const DeviceId& device) noexcept;

/// True if contexts on device `ordinal` can map memory of device `peer`, or both are equal; ordinals of this process.
/// Errors: as device_id().
OPAL_EXPORT Result<bool> can_access(int ordinal, int peer) noexcept;

}  // namespace opal::gpu
