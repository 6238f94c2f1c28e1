// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/sharing/device.hpp"

#include <cstring>

#include "opal/gpu/driver.hpp"
#include "opal/gpu/gpu.hpp"

namespace opal::gpu {

Result<DeviceId> device_id(int ordinal) noexcept {
  OPAL_TRY(usable());
  CUuuid uuid{};
  OPAL_TRY(check(driver().device_get_uuid(&uuid, ordinal), "cuDeviceGetUuid"));
  DeviceId id;
  static_assert(sizeof(id.uuid) == sizeof(uuid.bytes));
  std::memcpy(id.uuid.data(), &uuid.bytes, sizeof(uuid.bytes));
  return id;
}

Result<std::optional<int>> ordinal_of(const DeviceId& device) noexcept {
  OPAL_TRY(usable());
  int count = 0;
  OPAL_TRY(check(driver().device_get_count(&count), "cuDeviceGetCount"));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    OPAL_TRY_ASSIGN(const DeviceId id, device_id(ordinal));
    if (id == device) return std::optional{ordinal};
  }
  return std::optional<int>{};
}

Result<bool> can_access(int ordinal, int peer) noexcept {
  OPAL_TRY(usable());
  if (ordinal == peer) return true;
  int can = 0;
  OPAL_TRY(check(driver().device_can_access_peer(&can, ordinal, peer), "cuDeviceCanAccessPeer"));
  return can != 0;
}

}  // namespace opal::gpu
