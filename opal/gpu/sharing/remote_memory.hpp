// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/remote_memory.hpp — device memory of one process, mapped by another one, and ids of
// devices.
// The owner describes an allocation by a MemoryHandle; that is cheap, so it is made for every use and not cached.
// To open it costs about 100 us, so the other process caches the mapping (opal/rcache/rgpusm.hpp).
// Allocations of MemoryKind::mapped and pooled are shared by descriptors.  The owner makes one for each request of a
// peer and closes it afterwards, since an open descriptor keeps memory that the program has freed.  The peer makes an
// ImportedMemory of the descriptor, which owns the driver's import, and maps that.
// Threads: any; an ImportedMemory has one owner at a time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

/// The device's UUID, which is valid in every process.  An ordinal is not: it depends on CUDA_VISIBLE_DEVICES.
struct DeviceId {
  std::array<std::byte, 16> uuid{};
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

/// Errors: not_supported (no driver, or not initialised), invalid_argument (no such ordinal).
OPAL_EXPORT Result<DeviceId> device_id(int ordinal) noexcept;

/// The device's ordinal in this process; nullopt if this process does not see it (CUDA_VISIBLE_DEVICES, another host).
OPAL_EXPORT Result<std::optional<int>> ordinal_of(const DeviceId& device) noexcept;

/// True if contexts on device `ordinal` can map memory of device `peer`, or both are equal; ordinals of this process.
/// Errors: as device_id().
OPAL_EXPORT Result<bool> can_access(int ordinal, int peer) noexcept;

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

/// A descriptor that is sent over a Unix socket, and the bytes that are sent with it.
struct Descriptor {
  using Note = std::array<std::byte, 64>;
  Fd file;
  Note note{};  ///< pools: which allocation (cuMemPoolExportPointer); else zero
};

/// Errors: not_supported (another kind, or not created shareable), those of the driver.
OPAL_EXPORT Result<Descriptor> export_descriptor(const Memory& memory) noexcept;

/// An imported allocation (mapped) or memory pool (pooled) of another process.  An import of the mapped kind keeps the
/// memory allocated, also while it is not mapped here.
class OPAL_EXPORT ImportedMemory {
 public:
  /// Errors: invalid_argument (not a descriptor of the driver's), protocol (of a handle without descriptor), those of
  /// the driver.
  static Result<ImportedMemory> take(const MemoryHandle& handle, Descriptor descriptor) noexcept;

  ImportedMemory(ImportedMemory&& other) noexcept
      : handle_(other.handle_), note_(other.note_), imported_(std::exchange(other.imported_, 0)) {}
  ImportedMemory& operator=(ImportedMemory&&) = delete;
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory();

  /// Maps it for the device of `context`; returns the address of its first byte.  Errors: as open_memory().
  [[nodiscard]] Result<std::uintptr_t> map(ContextHandle context) const noexcept;
  /// Undoes one map() of an allocation with this handle.  The ImportedMemory need not exist any more.
  /// `context` is null if it was destroyed: these mappings outlive it.  Requires: no copy of it is in flight.
  static void unmap(const MemoryHandle& handle, std::uintptr_t address, ContextHandle context) noexcept;

 private:
  ImportedMemory(const MemoryHandle& handle, const Descriptor::Note& note, std::uint64_t imported) noexcept
      : handle_(handle), note_(note), imported_(imported) {}

  MemoryHandle handle_;
  Descriptor::Note note_;
  std::uint64_t imported_;  // the driver's handle of the memory or of the pool; 0: moved from
};

}  // namespace opal::gpu
