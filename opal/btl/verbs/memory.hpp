// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/memory.hpp — memory that is known to the device, and to the Context's table of registrations.
// A handle carries both: the key with which the device lets peers in, and the table's handle, with which a peer asks us
// where the device cannot (atomics that it lacks, memory too large to pin).  The device checks bounds and rights of
// what comes with a key; the initiator looks at the handle's claims first, so that an honest mistake costs no
// connection. Owned by its module; threads as that, but for invalidate().
#pragma once
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/registration_table.hpp"
#include "opal/btl/verbs/device.hpp"
#include "opal/btl/verbs/wire.hpp"

namespace opal::btl::verbs {

class Memory {
 public:
  /// `pin_limit`: bytes that the device may hold at a time.
  Memory(Device& device, RegistrationTable& table, std::uint64_t pin_limit, bool device_atomics) noexcept
      : device_(device), table_(table), pin_limit_(pin_limit), device_atomics_(device_atomics) {}

  /// Memory larger than the limit of all gets a handle without a key: peers reach it with our help.
  /// Errors: invalid_argument (the range wraps, or nothing is mapped there), limit_reached (room can be made), os.
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights);
  Result<void> remove(const MemoryHandle& handle);
  void invalidate(const MemoryHandle& handle) noexcept;

  /// How the device knows [address, +size), if `handle` is a live one of this module and covers it; else null.
  /// `writing`: the device will write there.
  [[nodiscard]] const ibv_mr* find(const MemoryHandle& handle, const void* address, std::uint64_t size,
                                   bool writing) const noexcept;

  /// Registers a range for one transfer of our own, read-only memory only for reading.
  Result<MemoryRegion> pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept;

 private:
  struct Entry {
    std::uint64_t generation = 0;
    MemoryRegion region;
    bool writable = false;
  };
  Device& device_;
  RegistrationTable& table_;
  const std::uint64_t pin_limit_;
  const bool device_atomics_;
  std::uint64_t pinned_ = 0;
  std::vector<Entry> entries_;  // by the table's slot
};

/// What a handle claims.  Errors: protocol (not one of this transport).
Result<wire::Handle> decode_handle(const MemoryHandle& handle) noexcept;

/// Whether the claims cover [address, +size) with `wanted` rights.  Errors: invalid_argument, permission.
Result<void> check_claims(const wire::Handle& handle, std::uint64_t address, std::uint64_t size,
                          Rights wanted) noexcept;

/// The part that the Context's table understands.
MemoryHandle software_part(const wire::Handle& handle) noexcept;

}  // namespace opal::btl::verbs
