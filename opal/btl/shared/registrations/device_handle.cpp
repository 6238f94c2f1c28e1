// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/registrations/device_handle.hpp"

namespace opal::btl {
namespace {

std::uint32_t checksum_of(DeviceHandle handle) noexcept {
  handle.checksum = 0;
  std::uint32_t hash = 0x811c9dc5;  // FNV-1a
  for (const std::byte byte : bytes_of(handle)) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x01000193;
  return hash;
}

}  // namespace

Result<DeviceHandle> DeviceHandle::decode(const MemoryHandle& handle) noexcept {
  DeviceHandle decoded{};
  if (handle.bytes().size() != sizeof decoded || !read_object(handle.bytes(), decoded)) {
    return Error{Errc::protocol, 0, "memory handle: not one of this transport", handle.bytes().size()};
  }
  constexpr std::uint32_t kKnown = kHasKey | kVirtualAddress | kAtomics;
  const bool plausible = decoded.has_key() ? (decoded.flags & ~kKnown) == 0 : decoded.flags == 0 && decoded.key == 0;
  if (decoded.checksum != checksum_of(decoded) || !plausible) {
    return Error{Errc::protocol, 0, "memory handle: garbled", decoded.checksum};
  }
  return decoded;
}

MemoryHandle DeviceHandle::encode() const noexcept {
  DeviceHandle complete = *this;
  complete.checksum = checksum_of(*this);
  return *MemoryHandle::from_bytes(bytes_of(complete));
}

MemoryHandle DeviceHandle::software_handle() const noexcept { return *MemoryHandle::from_bytes(bytes_of(software)); }

}  // namespace opal::btl
