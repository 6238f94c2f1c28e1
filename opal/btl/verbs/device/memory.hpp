// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/memory.hpp — memory that is registered with the device and in the Context's registration table.
// A handle carries both: the device's rkey, and the table's handle for accesses by messages (emulation), which serve
// what the device cannot do: atomics that it lacks, memory too large to pin.
// The device checks bounds and rights of accesses with an rkey.  The initiator checks the handle's bounds and rights
// first, since a refusal by the device breaks the connection.
// Unmapped memory is deregistered in the module's next progress(), or when the last local operation on it ends; until
// then a peer with the old handle accesses the old pages.
// Owned by its module.  Threads: as the module; invalidate() and invalidate_part() from any.
#pragma once
#include <utility>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/verbs/device/device.hpp"
#include "opal/btl/verbs/device/on_demand.hpp"
#include "opal/btl/verbs/wire.hpp"
#include "opal/core/sync/backlog.hpp"

namespace opal::btl::verbs {

class Memory {
 public:
  /// The lkey of registered local memory; the registration stays while this object holds it.  Empty: not registered.
  class LocalKey {
   public:
    LocalKey() noexcept = default;
    LocalKey(LocalKey&& other) noexcept { *this = std::move(other); }
    LocalKey& operator=(LocalKey&& other) noexcept {
      if (this == &other) return *this;
      reset();
      memory_ = std::exchange(other.memory_, nullptr);
      slot_ = other.slot_;
      generation_ = other.generation_;
      key_ = other.key_;
      return *this;
    }
    ~LocalKey() { reset(); }
    void reset() noexcept {
      if (Memory* const memory = std::exchange(memory_, nullptr); memory != nullptr) memory->give_back(*this);
    }
    explicit operator bool() const noexcept { return memory_ != nullptr; }
    [[nodiscard]] std::uint32_t value() const noexcept { return key_; }

   private:
    friend class Memory;
    LocalKey(Memory& memory, std::uint32_t slot, std::uint64_t generation, std::uint32_t key) noexcept
        : memory_(&memory), slot_(slot), generation_(generation), key_(key) {}
    Memory* memory_ = nullptr;
    std::uint32_t slot_ = 0;
    std::uint64_t generation_ = 0;
    std::uint32_t key_ = 0;
  };

  /// `pin_limit`: bytes that the device may hold pinned at a time.
  Memory(Device& device, OnDemand on_demand, RegistrationTable& table, std::uint64_t pin_limit,
         bool device_atomics) noexcept
      : device_(device),
        on_demand_(std::move(on_demand)),
        table_(table),
        pin_limit_(pin_limit),
        device_atomics_(device_atomics) {}

  [[nodiscard]] const OnDemand& on_demand() const noexcept { return on_demand_; }

  /// Registers memory.  A range larger than pin_limit without on-demand paging gets no rkey: peers access it by
  /// messages. Errors: invalid_argument (the range wraps, or is not mapped), limit_reached (deregister something), os.
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights);
  Result<void> remove(const MemoryHandle& handle);
  /// Marks a registration stale; may be called inside a memory event, from any thread.
  void invalidate(const MemoryHandle& handle) noexcept;
  /// The same for a part: accesses by messages are refused there; accesses with the rkey still reach the old pages.
  void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept;
  /// True if revoke_stale() has work.
  [[nodiscard]] bool some_stale() const noexcept { return stale_.any(); }
  /// Deregisters stale registrations without users; the device refuses peers from then on.
  void revoke_stale() noexcept;

  /// The lkey for [address, +size) if `handle` is a live handle of this module that covers it; else empty.
  /// `writing`: the device will write there, so the registration must be writable.
  [[nodiscard]] LocalKey find(const MemoryHandle& handle, const void* address, std::uint64_t size,
                              bool writing) noexcept;

  /// Registers a range for one local transfer.  Sets `writable` to false for read-only memory, which is registered for
  /// reading only.
  Result<MemoryRegion> pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept;

 private:
  struct Entry {
    std::uint64_t generation = 0;
    MemoryRegion region;
    std::uint64_t pinned = 0;  // bytes that count against pin_limit_
    std::uint32_t users = 0;   // LocalKeys that hold it
    bool writable = false;     // by the device
    bool stale = false;        // revoked when users becomes 0
  };
  void revoke(std::uint32_t slot) noexcept;
  void unpin(Entry& entry) noexcept;
  void give_back(const LocalKey& key) noexcept;

  /// Registers for on-demand paging, without pinning; null: the device cannot do that for this memory.
  [[nodiscard]] MemoryRegion map_on_demand(void* base, std::uint64_t size, int access) const noexcept;

  Device& device_;
  const OnDemand on_demand_;
  RegistrationTable& table_;
  const std::uint64_t pin_limit_;
  const bool device_atomics_;
  std::uint64_t pinned_ = 0;          // bytes, of all entries
  std::vector<Entry> entries_;        // by slot of table_
  Backlog<std::uint32_t, 64> stale_;  // slots of invalidate()
};

/// The fields of a handle, unchecked otherwise.  Errors: protocol (not a handle of this transport).
Result<wire::Handle> decode_handle(const MemoryHandle& handle) noexcept;

/// The handle of the Context's registration table within `handle`.
MemoryHandle software_part(const wire::Handle& handle) noexcept;

}  // namespace opal::btl::verbs
