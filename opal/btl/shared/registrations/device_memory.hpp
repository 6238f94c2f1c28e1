// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/device_memory.hpp — the bases of a transport's registrations with its device.  Each one
// is also in the Context's registration table, and its handle is a DeviceHandle.  A transport adds add(), which
// registers memory, and calls revoke_stale() in progress().  DeviceMemory also registers local memory.
// * The initiator checks the bounds and rights of a handle first; the device checks those of the key again.
// * Unmapped memory is deregistered in the module's next progress(), or when the last local operation on it ends. Until
//   then a peer with the old handle accesses the old pages.
// Owned by its module.  Threads: as the module; invalidate() and invalidate_part() from any.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "opal/btl/shared/registrations/device_handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/sync/backlog.hpp"

namespace opal::btl {

class DeviceRegistrations {
 public:
  DeviceRegistrations(const DeviceRegistrations&) = delete;
  DeviceRegistrations& operator=(const DeviceRegistrations&) = delete;

  /// As Module::register_memory().
  virtual Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) = 0;
  Result<void> remove(const MemoryHandle& handle) {
    OPAL_TRY_ASSIGN(const DeviceHandle decoded, DeviceHandle::decode(handle));
    OPAL_TRY(table_.remove(decoded.software_handle()));
    end(decoded.software.slot);
    return {};
  }
  /// Marks a registration stale; may be called inside a memory event, from any thread.
  void invalidate(const MemoryHandle& handle) noexcept {
    const auto decoded = DeviceHandle::decode(handle);
    if (!decoded) return;
    table_.invalidate(decoded->software_handle());
    if (decoded->has_key()) stale_.add(decoded->software.slot);
  }
  /// The same for a part: accesses by messages are refused there; accesses with the key still reach the old pages.
  virtual void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept {
    if (const auto decoded = DeviceHandle::decode(handle)) table_.invalidate_part(decoded->software_handle(), gone);
  }
  /// True if revoke_stale() has work.
  [[nodiscard]] bool some_stale() const noexcept { return stale_.any(); }

 protected:
  explicit DeviceRegistrations(RegistrationTable& table) noexcept : table_(table) {}
  ~DeviceRegistrations() = default;
  /// Ends the device's registration in `slot` of the table, if there is one.
  virtual void end(std::uint32_t slot) noexcept = 0;

  RegistrationTable& table_;
  Backlog<std::uint32_t, 64> stale_;  // slots of invalidate()
};

/// `Region` owns one registration of the device (a std::unique_ptr).  `LocalKey` names it in local operations.
template <class Region, class LocalKey>
class DeviceMemory : public DeviceRegistrations {
 public:
  /// The key of registered local memory.  The registration stays while this object holds it.  Empty: not registered.
  class Local {
   public:
    Local() noexcept = default;
    void reset() noexcept { memory_.reset(); }
    explicit operator bool() const noexcept { return memory_ != nullptr; }
    [[nodiscard]] LocalKey key() const noexcept { return key_; }

   private:
    friend class DeviceMemory;
    struct GiveBack {
      std::uint32_t slot = 0;
      std::uint64_t generation = 0;
      void operator()(DeviceMemory* memory) const noexcept { memory->give_back(slot, generation); }
    };
    Local(DeviceMemory& memory, const GiveBack& entry, LocalKey key) noexcept : memory_(&memory, entry), key_(key) {}
    std::unique_ptr<DeviceMemory, GiveBack> memory_;  // borrowed: its end gives the entry back
    LocalKey key_{};
  };

  /// Deregisters stale registrations without users; the device refuses peers from then on.
  void revoke_stale() noexcept {
    const bool some_lost = stale_.take([this](std::uint32_t slot) { revoke(slot); });
    for (std::uint32_t slot = 0; some_lost && slot < entries_.size(); ++slot) revoke(slot);
  }

  /// The key for [address, +size) if `handle` is a live handle of this module that covers it; else empty.
  /// `writing`: the device will write there, so the registration must be writable.
  [[nodiscard]] Local find(const MemoryHandle& handle, const void* address, std::uint64_t size, bool writing) noexcept {
    const auto decoded = DeviceHandle::decode(handle);
    if (!decoded || decoded->software.slot >= entries_.size()) return {};
    Entry& entry = entries_[decoded->software.slot];
    if (entry.region == nullptr || entry.stale || entry.generation != decoded->software.generation) return {};
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(address) - entry.base;
    if (offset > entry.size || size > entry.size - offset) return {};
    if (writing && !entry.writable) return {};
    ++entry.users;
    return {*this, {decoded->software.slot, entry.generation}, entry.key};
  }

 protected:
  using DeviceRegistrations::DeviceRegistrations;
  ~DeviceMemory() = default;

  /// Bytes of all registrations that were kept with `pinned`.
  [[nodiscard]] std::uint64_t pinned() const noexcept { return pinned_; }
  /// Keeps the device's registration of `software`.  `writable`: the device may write there.  `pinned`: it counts in
  /// pinned().
  void keep(const SoftwareHandle& software, Region region, LocalKey key, bool writable, bool pinned) {
    if (entries_.size() <= software.slot) entries_.resize(software.slot + std::size_t{1});
    if (pinned) pinned_ += software.size;
    entries_[software.slot] = {
        software.generation, software.base, software.size, std::move(region), key, 0, writable, false, pinned};
  }

 private:
  struct Entry {
    std::uint64_t generation = 0;
    std::uint64_t base = 0;
    std::uint64_t size = 0;
    Region region;
    LocalKey key{};
    std::uint32_t users = 0;  // Locals that hold it
    bool writable = false;
    bool stale = false;  // revoked when users becomes 0
    bool pinned = false;
  };

  void end(std::uint32_t slot) noexcept final {
    if (slot >= entries_.size()) return;
    unpin(entries_[slot]);
    entries_[slot] = {};
  }
  void unpin(Entry& entry) noexcept {
    if (std::exchange(entry.pinned, false)) pinned_ -= entry.size;
    entry.region.reset();
  }
  void revoke(std::uint32_t slot) noexcept {
    if (slot >= entries_.size()) return;
    Entry& entry = entries_[slot];
    // The slot may hold a new registration already.
    if (entry.region == nullptr || table_.view().find(slot, entry.generation)) return;
    entry.stale = true;
    if (entry.users == 0) unpin(entry);
  }
  void give_back(std::uint32_t slot, std::uint64_t generation) noexcept {
    Entry& entry = entries_[slot];
    if (entry.generation != generation) return;  // deregistered meanwhile
    if (--entry.users == 0 && entry.stale) unpin(entry);
  }

  std::uint64_t pinned_ = 0;    // bytes
  std::vector<Entry> entries_;  // by slot of table_
};

}  // namespace opal::btl
