// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/memory/memory.hpp — memory that is registered with the provider and in the Context's registration table.
// A handle carries both keys (rdm/handle.hpp).
// Keys are random numbers of as many bits as the provider allows, unless the provider makes them (FI_MR_PROV_KEY).
// Unmapped memory is deregistered in the module's next progress(), or when the last local operation on it ends; until
// then a peer with the old handle accesses the old pages.
// A provider that needs allocated memory (FI_MR_ALLOCATED) pins it.  It gets at most half of the memory that this
// process may use; registrations beyond that have no key. Owned by its module.  Threads: as the module; invalidate()
// and invalidate_part() from any.
#pragma once
#include <utility>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/ofi/device/device.hpp"
#include "opal/btl/shared/rdm/handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/export.hpp"
#include "opal/core/sync/backlog.hpp"

namespace opal::btl::ofi {

class Memory {
 public:
  /// The descriptor of registered local memory; the registration stays while this object holds it.  Empty: not
  /// registered.
  class Local {
   public:
    Local() noexcept = default;
    Local(Local&& other) noexcept { *this = std::move(other); }
    Local& operator=(Local&& other) noexcept {
      if (this == &other) return *this;
      reset();
      memory_ = std::exchange(other.memory_, nullptr);
      slot_ = other.slot_;
      generation_ = other.generation_;
      descriptor_ = other.descriptor_;
      return *this;
    }
    ~Local() { reset(); }
    void reset() noexcept {
      if (Memory* const memory = std::exchange(memory_, nullptr); memory != nullptr) memory->give_back(*this);
    }
    explicit operator bool() const noexcept { return memory_ != nullptr; }
    [[nodiscard]] void* descriptor() const noexcept { return descriptor_; }

   private:
    friend class Memory;
    Local(Memory& memory, std::uint32_t slot, std::uint64_t generation, void* descriptor) noexcept
        : memory_(&memory), slot_(slot), generation_(generation), descriptor_(descriptor) {}
    Memory* memory_ = nullptr;
    std::uint32_t slot_ = 0;
    std::uint64_t generation_ = 0;
    void* descriptor_ = nullptr;
  };

  /// `target`: the endpoint that peers access, for providers with FI_MR_ENDPOINT.
  Memory(const Device& device, const FabricEndpoint& target, RegistrationTable& table);

  /// Registers memory.  Memory that the provider does not register, or that is too large to be pinned, gets no key:
  /// peers access it by messages.
  /// Errors: invalid_argument (the range wraps), limit_reached (the table is full).
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights);
  Result<void> remove(const MemoryHandle& handle);
  /// Marks a registration stale; may be called inside a memory event, from any thread.
  void invalidate(const MemoryHandle& handle) noexcept;
  /// The same for a part: accesses by messages are refused there; those with the key still reach the old pages.
  void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept;
  /// True if revoke_stale() has work.
  [[nodiscard]] bool some_stale() const noexcept { return stale_.any(); }
  /// Deregisters stale registrations without users; the provider refuses peers from then on.
  void revoke_stale() noexcept;

  /// The descriptor for [address, +size) if `handle` is a live handle of this module that covers it; else empty.
  /// `writing`: the provider will write there, so the registration must be writable.
  [[nodiscard]] Local find(const MemoryHandle& handle, const void* address, std::uint64_t size, bool writing) noexcept;

  /// Registers a range; `access`: what peers may do, FI_REMOTE_READ and FI_REMOTE_WRITE.  Sets `writable` to false for
  /// read-only memory, which is registered for reading only.  Errors: those of fi_mr_reg().
  Result<MemoryRegion> pin(void* base, std::uint64_t size, std::uint64_t access, bool& writable) const noexcept;

  /// Forgets the registrations without ending them; in a forked child.
  void abandon() noexcept {
    for (Entry& entry : entries_) (void)entry.region.release();
  }

 private:
  struct Entry {
    std::uint64_t generation = 0;
    std::uint64_t base = 0;
    std::uint64_t size = 0;
    MemoryRegion region;
    std::uint32_t users = 0;  // Locals that hold it
    bool writable = false;    // by the provider
    bool stale = false;       // revoked when users becomes 0
  };
  [[nodiscard]] Result<MemoryRegion> pin_as(void* base, std::uint64_t size, std::uint64_t access) const noexcept;
  void unpin(Entry& entry) noexcept;
  void revoke(std::uint32_t slot) noexcept;
  void give_back(const Local& local) noexcept;

  const Device& device_;
  const FabricEndpoint& target_;
  RegistrationTable& table_;
  const std::uint64_t pin_limit_;     // bytes
  std::uint64_t pinned_ = 0;          // bytes, of all entries
  std::vector<Entry> entries_;        // by slot of table_
  Backlog<std::uint32_t, 64> stale_;  // slots of invalidate()
};

}  // namespace opal::btl::ofi
