// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/device_handle.hpp — the memory handle of a transport whose device does puts and gets.
// It has two parts: the key of the device's registration, and the handle of the Context's registration table for
// accesses by messages, which serve what the device cannot do.  Pure functions.
#pragma once
#include <cstdint>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace opal::btl {

/// The bytes of the handle on the wire, little endian.  A change requires a new kWireVersion of verbs, rdm and
/// portals4.
struct DeviceHandle {
  std::uint64_t key;       ///< of the device's registration; 0 without kHasKey
  std::uint32_t flags;     ///< kHasKey, kVirtualAddress, kAtomics
  std::uint32_t checksum;  ///< of all other members: a garbled handle is refused before its use
  SoftwareHandle software;

  static constexpr std::uint32_t kHasKey = 1;
  static constexpr std::uint32_t kVirtualAddress = 2;  ///< the device takes addresses, else offsets in the registration
  static constexpr std::uint32_t kAtomics = 4;         ///< the device's atomics may be used on this memory

  /// Reads a handle.  Errors: protocol (not a handle of such a transport, or garbled).
  static Result<DeviceHandle> decode(const MemoryHandle& handle) noexcept {
    DeviceHandle decoded{};
    if (handle.bytes().size() != sizeof decoded || !read_object(handle.bytes(), decoded)) {
      return Error{Errc::protocol, 0, "memory handle: not one of this transport", handle.bytes().size()};
    }
    constexpr std::uint32_t kKnown = kHasKey | kVirtualAddress | kAtomics;
    const bool plausible = decoded.has_key() ? (decoded.flags & ~kKnown) == 0 : decoded.flags == 0 && decoded.key == 0;
    if (decoded.checksum != decoded.compute_checksum() || !plausible) {
      return Error{Errc::protocol, 0, "memory handle: garbled", decoded.checksum};
    }
    return decoded;
  }
  /// Computes the checksum.
  [[nodiscard]] MemoryHandle encode() const noexcept {
    DeviceHandle complete = *this;
    complete.checksum = compute_checksum();
    return *MemoryHandle::from_bytes(bytes_of(complete));
  }

  [[nodiscard]] bool has_key() const noexcept { return (flags & kHasKey) != 0; }
  /// The handle of the Context's registration table.
  [[nodiscard]] MemoryHandle software_handle() const noexcept { return *MemoryHandle::from_bytes(bytes_of(software)); }
  /// What the device takes for `address` of the registration.
  [[nodiscard]] std::uint64_t device_address(std::uint64_t address) const noexcept {
    return (flags & kVirtualAddress) != 0 ? address : address - software.base;
  }

 private:
  [[nodiscard]] std::uint32_t compute_checksum() const noexcept {
    DeviceHandle covered = *this;
    covered.checksum = 0;
    std::uint32_t hash = 0x811c9dc5;  // FNV-1a
    for (const std::byte byte : bytes_of(covered)) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x01000193;
    return hash;
  }
};
static_assert(sizeof(DeviceHandle) == 48 && std::has_unique_object_representations_v<DeviceHandle>, "wire layout v1");
static_assert(sizeof(DeviceHandle) != sizeof(SoftwareHandle), "PipelinedTransfers tells them apart by their length");

}  // namespace opal::btl
