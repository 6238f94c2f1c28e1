// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/memory/memory.hpp — memory that is registered with the provider (device_memory.hpp).
// Keys are random numbers of as many bits as the provider allows, unless the provider makes them (FI_MR_PROV_KEY).
// A provider that needs allocated memory (FI_MR_ALLOCATED) pins it.  It gets at most half of the memory that this
// process may use; registrations beyond that have no key. Owned by its module.  Threads: as the module; invalidate()
// and invalidate_part() from any.
#pragma once
#include "opal/btl/ofi/device/device.hpp"
#include "opal/btl/shared/registrations/device_memory.hpp"

namespace opal::btl::ofi {

/// Local key: the descriptor.
class Memory final : public DeviceMemory<MemoryRegion, void*> {
 public:
  /// `target`: the endpoint that peers access, for providers with FI_MR_ENDPOINT.
  Memory(const Device& device, const FabricEndpoint& target, RegistrationTable& table);

  /// Registers memory.  Memory that the provider does not register, or that is too large to be pinned, gets no key:
  /// peers access it by messages.
  /// Errors: invalid_argument (the range wraps), limit_reached (the table is full).
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) override;

  /// Registers a range; `access`: what peers may do, FI_REMOTE_READ and FI_REMOTE_WRITE.  Sets `writable` to false for
  /// read-only memory, which is registered for reading only.  Errors: those of fi_mr_reg().
  Result<MemoryRegion> pin(void* base, std::uint64_t size, std::uint64_t access, bool& writable) const noexcept;

 private:
  [[nodiscard]] Result<MemoryRegion> pin_as(void* base, std::uint64_t size, std::uint64_t access) const noexcept;

  const Device& device_;
  const FabricEndpoint& target_;
  const std::uint64_t pin_limit_;  // bytes
};

}  // namespace opal::btl::ofi
