// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/memory.hpp — memory that is registered with the device (device_memory.hpp).  Messages serve
// what the device cannot do: atomics that it lacks, memory too large to pin.  The initiator checks a handle's bounds
// and rights first, since a refusal by the device breaks the connection. Owned by its module.  Threads: as the module;
// invalidate() and invalidate_part() from any.
#pragma once
#include <utility>

#include "opal/btl/shared/registrations/device_memory.hpp"
#include "opal/btl/verbs/device/device.hpp"
#include "opal/btl/verbs/device/on_demand.hpp"

namespace opal::btl::verbs {

/// Local key: the lkey.
class Memory : public DeviceMemory<MemoryRegion, std::uint32_t> {
 public:
  /// `pin_limit`: bytes that the device may hold pinned at a time.
  Memory(Device& device, OnDemand on_demand, RegistrationTable& table, std::uint64_t pin_limit,
         bool device_atomics) noexcept
      : DeviceMemory(table),
        device_(device),
        on_demand_(std::move(on_demand)),
        pin_limit_(pin_limit),
        device_atomics_(device_atomics) {}

  [[nodiscard]] const OnDemand& on_demand() const noexcept { return on_demand_; }

  /// Registers memory.  A range larger than pin_limit without on-demand paging gets no rkey: peers access it by
  /// messages. Errors: invalid_argument (the range wraps, or is not mapped), limit_reached (deregister something), os.
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights);

  /// Registers a range for one local transfer.  Sets `writable` to false for read-only memory, which is registered for
  /// reading only.
  Result<MemoryRegion> pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept;

 private:
  /// Registers for on-demand paging, without pinning; null: the device cannot do that for this memory.
  [[nodiscard]] MemoryRegion map_on_demand(void* base, std::uint64_t size, int access) const noexcept;

  Device& device_;
  const OnDemand on_demand_;
  const std::uint64_t pin_limit_;
  const bool device_atomics_;
};

}  // namespace opal::btl::verbs
