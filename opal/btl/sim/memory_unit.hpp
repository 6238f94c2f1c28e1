// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory_unit.hpp — the registrations of one simulated device: key, bounds and rights.  An access with a
// key that was removed or invalidated, outside the bounds or without the right is an error.  Number and bytes are
// limited as on a device; tests set the limits.
// The device accesses what is mapped at the time, as with on-demand paging.  An unmapped page is an error, no signal.
// All devices are in one process, so an address names the same memory for each.
// Threads: safe from any thread, since registration caches call from any.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/sim/config.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/sync/backlog.hpp"

namespace opal::btl::sim {

/// The content of a MemoryHandle of this transport.  Accesses are checked against the slot; base, size and rights here
/// are for information.
struct Key {
  std::uint64_t magic;       ///< kKeyMagic in each handle of this transport
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
  std::uint64_t bytes = 0;       ///< sum of their sizes
  std::uint64_t registered = 0;  ///< registrations made so far
  std::uint64_t most_count = 0;  ///< largest count so far
  std::uint64_t most_bytes = 0;  ///< largest bytes so far
  std::uint64_t refused = 0;     ///< registrations over a limit
  std::uint64_t faults = 0;      ///< accesses refused: stale, out of bounds, without the right
};

class OPAL_EXPORT MemoryUnit {
 public:
  /// `first_generation`: odd and random, so that the handle of another device is refused; 0 and even numbers are never
  /// used.
  MemoryUnit(const Config& config, std::uint64_t first_generation) noexcept;
  MemoryUnit(const MemoryUnit&) = delete;
  MemoryUnit& operator=(const MemoryUnit&) = delete;

  /// Errors: limit_reached (set_limits()), invalid_argument (the range wraps).
  Result<MemoryHandle> add(void* base, std::uint64_t size, Rights rights) noexcept;
  /// Errors: invalid_argument (removed before, or of another device).  A stale handle can be removed.
  Result<void> remove(const MemoryHandle& handle) noexcept;

  /// Makes a live handle stale: accesses to it are refused from now on; remove() must still follow.  Called inside the
  /// memory event, so it never waits for the lock: the calling thread may hold it (malloc in add() may unmap memory).
  void invalidate(const MemoryHandle& handle) noexcept;

  /// Whether an access to [address, +size) with `key` is allowed.  Errors: invalid_argument (stale, out of bounds),
  /// permission.
  Result<void> check(const Key& key, std::uint64_t address, std::uint64_t size, Rights wanted) noexcept;
  /// Checks and copies, both under one lock: no access comes after a remove().  Errors: check()'s, and
  /// invalid_argument (not mapped; a part may have been copied).
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
    bool stale = false;  // invalidated: refuses accesses, not removed yet
  };

  Result<void> check_locked(const Key& key, std::uint64_t address, std::uint64_t size, Rights wanted) noexcept;
  void mark_stale_locked() noexcept;

  mutable std::mutex mutex_;
  MemoryLimits limits_;
  MemoryUse use_;
  std::uint64_t next_generation_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  Backlog<std::uint32_t, 64> stale_;  // slots of invalidate(); if some are lost, mark_stale_locked() marks all
};

}  // namespace opal::btl::sim
