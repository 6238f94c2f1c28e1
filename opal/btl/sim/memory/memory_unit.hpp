// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory/memory_unit.hpp — a device's registrations: keys, bounds, rights and the pages behind them. Every
// access names a key; one that is not live, or an address outside it, is refused.  Bounded in number and bytes, as a
// device is, with limit_reached to order.
// Threads: safe from any thread, since registration caches call from any.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/registrations/stale_slots.hpp"
#include "opal/btl/sim/config.hpp"
#include "opal/btl/sim/memory/pages.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::sim {

/// The bytes of a MemoryHandle of this transport.
struct Key {
  std::uint64_t magic;       ///< kKeyMagic: not a handle of another kind
  std::uint64_t generation;  ///< of the slot; never used twice by one device
  std::uint64_t base;
  std::uint64_t size;
  std::uint32_t slot;
  std::uint32_t rights;
};
inline constexpr std::uint64_t kKeyMagic = 0x3159454b4d49534fU;  // "OSIMKEY1"
static_assert(sizeof(Key) == 40 && std::has_unique_object_representations_v<Key>, "handle layout v1");

/// Errors: invalid_argument (not a handle of this transport).
Result<Key> key_of(const MemoryHandle& handle) noexcept;

struct MemoryLimits {
  std::uint64_t count = UINT64_MAX;
  std::uint64_t bytes = UINT64_MAX;
};

struct MemoryUse {
  std::uint64_t count = 0;       ///< registrations now
  std::uint64_t bytes = 0;       ///< of them
  std::uint64_t pinned = 0;      ///< of the registrations, those that hold pages
  std::uint64_t registered = 0;  ///< ever
  std::uint64_t most_count = 0;  ///< at a time
  std::uint64_t most_bytes = 0;  ///< at a time
  std::uint64_t refused = 0;     ///< registrations over a limit
  std::uint64_t faults = 0;      ///< accesses refused: stale, out of bounds, without the right
};

class OPAL_EXPORT MemoryUnit {
 public:
  /// `first_generation`: where generations start, so that a handle of another device does not fit by chance.
  MemoryUnit(Pages& pages, const Config& config, std::uint64_t first_generation) noexcept;
  ~MemoryUnit();
  MemoryUnit(const MemoryUnit&) = delete;
  MemoryUnit& operator=(const MemoryUnit&) = delete;

  /// Errors: limit_reached, invalid_argument (wraps, not mapped, or not to be pinned), not_supported (memory=pinned).
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) noexcept;
  /// Errors: invalid_argument (not live).
  Result<void> remove(const MemoryHandle& handle) noexcept;

  /// Refuses the key from now on; remove() still follows.  From within an event that unmaps the memory: does not wait
  /// for the lock, under which pages are pinned.
  void invalidate(const MemoryHandle& handle) noexcept;

  /// Whether [address, +size) may be reached by `key`.  Errors: invalid_argument (stale, out of bounds), permission.
  Result<void> check(const Key& key, std::uint64_t address, std::uint64_t size, Rights wanted) noexcept;
  /// Checks and copies, both under one lock: no access comes after a remove().  Errors: check()'s, and Pages'.
  Result<void> read(const Key& key, std::uint64_t address, MutableBytes out, Rights wanted) noexcept;
  Result<void> write(const Key& key, std::uint64_t address, ByteSpan bytes, Rights wanted) noexcept;

  void set_limits(const MemoryLimits& limits) noexcept;
  [[nodiscard]] MemoryUse use() const noexcept;

 private:
  struct Slot {
    std::uint64_t generation = 0;  // 0: free
    std::uint64_t base = 0;
    std::uint64_t size = 0;
    Rights rights = Rights::none;
    Pin pin;
    bool stale = false;  // its memory is gone
  };
  enum class Mode : std::uint8_t { automatic, pinned, on_demand };

  Result<Pin> pin(void* base, std::uint64_t size, Rights rights) noexcept;
  Result<Slot*> find_locked(const Key& key, std::uint64_t address, std::uint64_t size, Rights wanted) noexcept;

  void take_over_stale_locked() noexcept;

  Pages& pages_;
  const Mode mode_;
  mutable std::mutex mutex_;
  MemoryLimits limits_;
  MemoryUse use_;
  std::uint64_t next_generation_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  StaleSlots stale_;  // of invalidate(); when some were lost, every key of that moment is stale
};

}  // namespace opal::btl::sim
