// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/memory/memory.hpp — memory that peers reach by put and get of the interface: one match list entry
// per registration, whose match bits are a random key, and the entry of the Context's registration table for accesses
// by messages (device_handle.hpp).  Local buffers need no registration: one memory descriptor covers the address space.
// Owned by its module.  Threads: as the module; invalidate() and invalidate_part() from any.
#pragma once
#include <vector>

#include "opal/btl/portals4/device/interface.hpp"
#include "opal/btl/shared/registrations/device_memory.hpp"

namespace opal::btl::portals4 {

class Memory final : public DeviceRegistrations {
 public:
  Memory(const Interface& interface, const Objects& objects, RegistrationTable& table) noexcept
      : DeviceRegistrations(table), interface_(interface), objects_(objects) {}

  /// Registers memory.  If the interface has no room for an entry, peers reach it by messages.
  /// Errors: invalid_argument (the range wraps), limit_reached (the table is full).
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) override;
  /// The interface refuses the whole registration from the next revoke_stale() on, and messages
  /// reach the other parts: an interface that translates addresses itself would reach what is mapped there later.
  void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept override;
  /// Unlinks registrations that are stale, or in part; the interface refuses peers from then on.
  void revoke_stale() noexcept;
  /// Unlinks all.
  void unlink_all() noexcept;

 private:
  void end(std::uint32_t slot) noexcept override;
  void unlink(ptl_handle_me_t& entry) noexcept;

  const Interface& interface_;
  const Objects& objects_;
  std::vector<ptl_handle_me_t> entries_;  // by slot of table_
};

}  // namespace opal::btl::portals4
