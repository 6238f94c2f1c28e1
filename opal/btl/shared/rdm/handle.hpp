// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/handle.hpp — memory handles of networks with one-sided operations.  A handle carries two keys:
// that of the network's registration, and the handle of the Context's registration table for accesses by messages.
// Pure functions.
#pragma once
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/rdm/wire.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::rdm {

/// The checksum of a handle, over all its other members.
OPAL_EXPORT std::uint32_t checksum_of(const wire::Handle& handle) noexcept;
/// The fields of a handle.  Errors: protocol (not a handle of such a network, or garbled).
OPAL_EXPORT Result<wire::Handle> decode_handle(const MemoryHandle& handle) noexcept;
OPAL_EXPORT MemoryHandle encode_handle(wire::Handle handle) noexcept;
/// The handle of the Context's registration table within `handle`.
OPAL_EXPORT MemoryHandle software_part(const wire::Handle& handle) noexcept;
/// The address that the network takes for `address` of the registration.
inline std::uint64_t network_address(const wire::Handle& handle, std::uint64_t address) noexcept {
  return (handle.flags & wire::kVirtualAddress) != 0 ? address : address - handle.software.base;
}

}  // namespace opal::btl::rdm
