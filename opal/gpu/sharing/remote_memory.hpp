// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/remote_memory.hpp — device memory of one process, mapped by another one.
// The owner describes an allocation by a MemoryHandle; that is cheap, so it is made for every use and not cached.
// To open it costs about 100 us, so the other process caches the mapping (opal/rcache/rgpusm.hpp).  Threads: any.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/gpu/sharing/device.hpp"

namespace opal::gpu {

/// Describes an allocation to another process of the host; sent as these bytes.  Two handles are equal exactly if they
/// describe the same allocation: `driver` and `buffer_id` change when an address is allocated again.
struct MemoryHandle {
  std::uint64_t base = 0;       ///< in the owner's address space
  std::uint64_t size = 0;       ///< bytes from base
  std::uint64_t buffer_id = 0;  ///< unique in the owner's process
  std::uint64_t kind = 0;       ///< a MemoryKind: legacy is opened by `driver`, mapped and pooled by a descriptor
  DeviceId device;
  std::array<std::byte, 64> driver{};  ///< what cuIpcGetMemHandle returned; zero for other kinds

  /// The MemoryKind in `kind`, or `other` if that is no kind that can be shared.
  [[nodiscard]] MemoryKind memory_kind() const noexcept {
    for (const MemoryKind known : {MemoryKind::legacy, MemoryKind::mapped, MemoryKind::pooled}) {
      if (kind == static_cast<std::uint64_t>(known)) return known;
    }
    return MemoryKind::other;
  }

  friend bool operator==(const MemoryHandle&, const MemoryHandle&) = default;
};
static_assert(sizeof(MemoryHandle) == 112 && std::is_trivially_copyable_v<MemoryHandle>, "sent between processes");

/// Describes the allocation for other processes, and makes the program's synchronous operations on it synchronous.
/// Errors: not_supported (neither legacy memory nor created shareable by descriptor: the caller stages it), those of
/// the driver.
OPAL_EXPORT Result<MemoryHandle> export_memory(const Memory& memory) noexcept;

/// Maps another process's allocation of the legacy kind for use in `context`; returns the address of its first byte.
/// A second open of the same allocation may return the same address: each success needs its own close_memory().
/// Errors: busy (an overlapping older mapping of that process is open: close it), no_memory, limit_reached (close other
/// mappings), not_supported (no access between the devices), os (freed, or its owner has ended), invalid_argument (no
/// context; not a handle; memory of this process), protocol (the allocation is smaller than handle.size).
OPAL_EXPORT Result<std::uintptr_t> open_memory(const MemoryHandle& handle, ContextHandle context) noexcept;

/// Undoes one open_memory().  Waits for the copies in flight in that context.  Does nothing if `context` is null: it
/// was destroyed, which has ended the mapping (see context_alive()).
OPAL_EXPORT void close_memory(std::uintptr_t address, ContextHandle context) noexcept;

}  // namespace opal::gpu
