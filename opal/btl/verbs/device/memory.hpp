// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/memory.hpp — memory that is registered with the device (device_memory.hpp).  Messages serve
// what the device cannot do: atomics that it lacks, memory too large to pin.  The initiator checks a handle's bounds
// and rights first, since a refusal by the device breaks the connection. Owned by its module.  Threads: as the module;
// invalidate() and invalidate_part() from any.
#pragma once
#include <string_view>

#include "opal/btl/shared/registrations/device_memory.hpp"
#include "opal/btl/verbs/device/device.hpp"

namespace opal::btl::verbs {

/// On-demand paging of a device, which replaces pinning.
struct OnDemand {
  bool regions = false;     ///< memory is registered without being pinned
  MemoryRegion everything;  ///< the whole address space, for local buffers of puts and gets; null: register each buffer
};

/// Local key: the lkey.
class Memory final : public DeviceMemory<MemoryRegion, std::uint32_t> {
 public:
  /// `on_demand`: Config::on_demand.  Logs why on-demand paging is not used, if the device offers it or `on_demand` is
  /// "yes".  `pin_limit`: bytes that the device may hold pinned at a time.
  Memory(Device& device, std::string_view on_demand, RegistrationTable& table, std::uint64_t pin_limit,
         bool device_atomics);

  [[nodiscard]] const OnDemand& on_demand() const noexcept { return on_demand_; }

  /// Registers memory.  A range larger than pin_limit without on-demand paging gets no rkey: peers access it by
  /// messages; so does GPU memory of which the driver makes no dma-buf.
  /// Errors: invalid_argument (the range wraps, or is not mapped), limit_reached (deregister something), os.
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) override;

  /// Registers a range for one local transfer.  Sets `writable` to false for read-only memory, which is registered for
  /// reading only.
  Result<MemoryRegion> pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept;

 private:
  /// Registers for on-demand paging, without pinning; null: the device cannot do that for this memory.
  [[nodiscard]] MemoryRegion map_on_demand(void* base, std::uint64_t size, int access) const noexcept;
  /// Registers GPU memory; null: the driver or the device cannot do that.
  [[nodiscard]] MemoryRegion map_gpu(const void* base, std::uint64_t size, int access) const noexcept;

  Device& device_;
  const OnDemand on_demand_;
  const std::uint64_t pin_limit_;
  const bool device_atomics_;
};

}  // namespace opal::btl::verbs
