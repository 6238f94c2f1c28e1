// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/memory.hpp — memory that is known to the device, and to the Context's table of registrations.
// A handle carries both: the key with which the device lets peers in, and the table's handle, with which a peer asks us
// where the device cannot (atomics that it lacks, memory too large to pin).  The device checks bounds and rights of
// what comes with a key; the initiator looks at the handle's claims first, so that an honest mistake costs no
// connection. Memory that was unmapped leaves the device with the module's next progress(), or, if operations of our
// own are in flight on it, with the last of these; until then a peer with the old handle reaches the old pages.
// Owned by its module; threads as that, but for invalidate().
#pragma once
#include <utility>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/shared/registrations/stale_slots.hpp"
#include "opal/btl/verbs/device/device.hpp"
#include "opal/btl/verbs/device/on_demand.hpp"
#include "opal/btl/verbs/wire.hpp"

namespace opal::btl::verbs {

class Memory {
 public:
  /// Local memory as the device knows it, which it goes on doing while this is held.  Empty: it does not.
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

  /// Memory larger than the limit of all gets a handle without a key: peers reach it with our help.
  /// Errors: invalid_argument (the range wraps, or nothing is mapped there), limit_reached (room can be made), os.
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights);
  Result<void> remove(const MemoryHandle& handle);
  /// Inside an event, from any thread.
  void invalidate(const MemoryHandle& handle) noexcept;
  /// The same for a part: messages do not reach it any more; the device's key goes on with the old pages.
  void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept;
  [[nodiscard]] bool some_stale() const noexcept { return stale_.any(); }
  /// Takes from the device what was invalidated: from here on peers are refused.
  void revoke_stale() noexcept;

  /// How the device knows [address, +size), if `handle` is a live one of this module and covers it; else empty.
  /// `writing`: the device will write there.
  [[nodiscard]] LocalKey find(const MemoryHandle& handle, const void* address, std::uint64_t size,
                              bool writing) noexcept;

  /// Registers a range for one transfer of our own, read-only memory only for reading.
  Result<MemoryRegion> pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept;

 private:
  struct Entry {
    std::uint64_t generation = 0;
    MemoryRegion region;
    std::uint64_t pinned = 0;  // bytes
    std::uint32_t users = 0;   // LocalKeys
    bool writable = false;
    bool stale = false;
  };
  void revoke(std::uint32_t slot) noexcept;
  void unpin(Entry& entry) noexcept;
  void give_back(const LocalKey& key) noexcept;

  /// A region that holds nothing; null: the device takes this memory pinned only, or not at all.
  [[nodiscard]] MemoryRegion map_on_demand(void* base, std::uint64_t size, int access) const noexcept;

  Device& device_;
  const OnDemand on_demand_;
  RegistrationTable& table_;
  const std::uint64_t pin_limit_;
  const bool device_atomics_;
  std::uint64_t pinned_ = 0;
  std::vector<Entry> entries_;  // by the table's slot
  StaleSlots stale_;
};

/// What a handle claims.  Errors: protocol (not one of this transport).
Result<wire::Handle> decode_handle(const MemoryHandle& handle) noexcept;

/// The part that the Context's table understands.
MemoryHandle software_part(const wire::Handle& handle) noexcept;

}  // namespace opal::btl::verbs
