// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/remote_memory.hpp — device memory of one process, mapped by another one.
// The owner describes an allocation by a MemoryHandle, which is cheap and made anew for every use: nothing of it is
// kept. The other process opens it, which costs some 100 us, and so keeps it (opal/rcache/rgpusm.hpp). Threads:
// everything from any thread.
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

/// An allocation as another process of the machine learns of it; travels as it is.  Two handles are equal exactly if
/// they mean the same allocation: the driver's part and the buffer id change when an address is allocated again.
struct MemoryHandle {
  std::uint64_t base = 0;       ///< in the owner's address space
  std::uint64_t size = 0;       ///< bytes from base
  std::uint64_t buffer_id = 0;  ///< unique in the owner's process
  std::uint64_t kind = 0;       ///< a MemoryKind: legacy is opened by what follows, mapped and pooled by descriptor
  DeviceId device;
  std::array<std::byte, 64> driver{};  ///< what cuIpcGetMemHandle returned; zero for other kinds

  /// What `kind` says, or `other` if that is none that can be shared.
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
/// Errors: not_supported (neither legacy memory, nor created to be shared by descriptor: it is staged), those of the
/// driver.
OPAL_EXPORT Result<MemoryHandle> export_memory(const Memory& memory) noexcept;

/// Maps another process's allocation of the legacy kind for use in `context`; returns where its first byte is here.
/// Opening one that is open may return the same address: every success wants a close_memory(). Errors: busy (the driver
/// says that it is mapped already: something of that process that overlaps it, open here since before, has to be
/// closed), no_memory, limit_reached (close something), not_supported (no access between the devices), os (freed, or
/// its owner is gone), invalid_argument (the context was destroyed; not a handle; this process's own), protocol (the
/// allocation is smaller than the handle says).
OPAL_EXPORT Result<std::uintptr_t> open_memory(const MemoryHandle& handle, ContextHandle context) noexcept;

/// Undoes one open_memory().  Waits for the copies in flight in that context.  If the context is gone, so is the
/// mapping.
OPAL_EXPORT void close_memory(std::uintptr_t address, ContextHandle context) noexcept;

}  // namespace opal::gpu
