// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/imported_memory.hpp — allocations that processes share by descriptor: MemoryKind::mapped and pooled.
// The owner makes a descriptor for each request of a peer and closes it afterwards, since an open descriptor keeps
// memory that the program has freed.  The peer makes an ImportedMemory of the descriptor and maps that.
// The kind in the MemoryHandle of export_memory() (remote_memory.hpp) says which allocations are shared so.
// Owns: the driver's import.  Threads: an ImportedMemory has one owner at a time; free functions from any thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"

namespace opal::gpu {

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
