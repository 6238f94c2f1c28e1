// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory.hpp — the registrations of one simulated device (device_memory.hpp).  Number and bytes are
// limited as on a device; tests set the limits.  Local buffers need no registration.  The device checks the table at
// each access and accesses what is mapped at the time, as with on-demand paging, so stale registrations need no
// revoke_stale().  An unmapped page is an error, no signal.  All devices are in one process, so an address names the
// same memory for each.  Owned by its module.  Threads: as the module; invalidate() and invalidate_part() from any.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "opal/btl/shared/registrations/device_memory.hpp"
#include "opal/btl/sim/fabric.hpp"

namespace opal::btl::sim {

struct MemoryLimits {
  std::uint64_t count = UINT64_MAX;
  std::uint64_t bytes = UINT64_MAX;
};

struct MemoryUse {
  std::uint64_t count = 0;       ///< registrations now
  std::uint64_t bytes = 0;       ///< sum of their sizes
  std::uint64_t registered = 0;  ///< registrations made so far
  std::uint64_t most_count = 0;  ///< largest count so far
  std::uint64_t most_bytes = 0;  ///< largest bytes so far
  std::uint64_t refused = 0;     ///< registrations over a limit
};

class Memory final : public DeviceRegistrations {
 public:
  Memory(Fabric& fabric, RegistrationTable& table, const MemoryLimits& limits) noexcept
      : DeviceRegistrations(table), fabric_(fabric), limits_(limits) {}

  /// Errors: limit_reached (set_limits(), or the table is full), invalid_argument (the range wraps).
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) override {
    if (use_.count >= limits_.count || size > limits_.bytes || use_.bytes > limits_.bytes - size) {
      ++use_.refused;
      return Error{Errc::limit_reached, 0, "register_memory(sim): the device has no room", size};
    }
    OPAL_TRY_ASSIGN(const MemoryHandle software, table_.add(base, size, rights));
    DeviceHandle handle{};
    OPAL_TRY_ASSIGN(handle.software, SoftwareHandle::decode(software));
    handle.flags = DeviceHandle::kHasKey | DeviceHandle::kVirtualAddress | DeviceHandle::kAtomics;
    if (sizes_.size() <= handle.software.slot) sizes_.resize(handle.software.slot + std::size_t{1});
    sizes_[handle.software.slot] = size;
    ++use_.registered;
    ++use_.count;
    use_.bytes += size;
    use_.most_count = std::max(use_.most_count, use_.count);
    use_.most_bytes = std::max(use_.most_bytes, use_.bytes);
    return handle.encode();
  }
  void set_limits(const MemoryLimits& limits) noexcept { limits_ = limits; }
  [[nodiscard]] const MemoryUse& use() const noexcept { return use_; }

 private:
  void end(std::uint32_t slot) noexcept override {
    fabric_.wait_for_accesses();
    --use_.count;
    use_.bytes -= sizes_[slot];
  }

  Fabric& fabric_;
  MemoryLimits limits_;
  MemoryUse use_;
  std::vector<std::uint64_t> sizes_;  // by slot of table_
};

}  // namespace opal::btl::sim
