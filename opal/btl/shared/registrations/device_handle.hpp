// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/device_handle.hpp — the memory handle of a transport whose device does puts and gets.
// It has two parts: the key of the device's registration, and the handle of the Context's registration table for
// accesses by messages, which serve what the device cannot do.  Pure functions.
#pragma once
#include <cstdint>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/export.hpp"
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
  OPAL_EXPORT static Result<DeviceHandle> decode(const MemoryHandle& handle) noexcept;
  /// Computes the checksum.
  [[nodiscard]] OPAL_EXPORT MemoryHandle encode() const noexcept;

  [[nodiscard]] bool has_key() const noexcept { return (flags & kHasKey) != 0; }
  /// The handle of the Context's registration table.
  [[nodiscard]] OPAL_EXPORT MemoryHandle software_handle() const noexcept;
  /// What the device takes for `address` of the registration.
  [[nodiscard]] std::uint64_t device_address(std::uint64_t address) const noexcept {
    return (flags & kVirtualAddress) != 0 ? address : address - software.base;
  }
};
static_assert(sizeof(DeviceHandle) == 48 && std::has_unique_object_representations_v<DeviceHandle>, "wire layout v1");
static_assert(sizeof(DeviceHandle) != sizeof(SoftwareHandle), "PipelinedTransfers tells them apart by their length");

}  // namespace opal::btl
