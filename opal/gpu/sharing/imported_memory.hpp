// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/imported_memory.hpp — allocations that go to other processes by descriptor: memory of the
// virtual-memory functions, and of pools.  The owner makes a descriptor when a peer asks for one and keeps nothing: an
// open descriptor would keep memory that the program has freed.  The peer turns it into an ImportedMemory, from which
// it maps. Which allocations can go that way export_memory() says, by the kind in the MemoryHandle (remote_memory.hpp).
// Owns: the driver's import.  Threads: a resource, one owner at a time; the functions from any thread.
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

/// A descriptor as it goes over a Unix socket, and the bytes that go with it.
struct Descriptor {
  using Note = std::array<std::byte, 64>;
  Fd file;
  Note note{};  ///< pools: which allocation (cuMemPoolExportPointer); else zero
};

/// Errors: not_supported (not such memory, or not created to be shared), those of the driver.
OPAL_EXPORT Result<Descriptor> export_descriptor(const Memory& memory) noexcept;

/// Another process's allocation, or its pool.  Of virtual memory it keeps the memory, mapped or not.
class OPAL_EXPORT ImportedMemory {
 public:
  /// Errors: invalid_argument (not a descriptor of the driver's), protocol (of a handle without descriptor), those of
  /// the driver.
  static Result<ImportedMemory> take(const MemoryHandle& handle, Descriptor descriptor) noexcept;

  ImportedMemory(ImportedMemory&& other) noexcept
      : handle_(other.handle_), note_(other.note_), imported_(std::exchange(other.imported_, 0)) {}
  ImportedMemory& operator=(ImportedMemory&& other) noexcept;
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory() { release(); }

  [[nodiscard]] const MemoryHandle& handle() const noexcept { return handle_; }

  /// Maps it for the device of `context`; returns where its first byte is here.  Errors: as open_memory().
  [[nodiscard]] Result<std::uintptr_t> map(ContextHandle context) const noexcept;
  /// Undoes one map() of an allocation with this handle; the import may be gone.  No copy may be in flight.
  static void unmap(const MemoryHandle& handle, std::uintptr_t address, ContextHandle context) noexcept;

 private:
  ImportedMemory(const MemoryHandle& handle, const Descriptor::Note& note, std::uint64_t imported) noexcept
      : handle_(handle), note_(note), imported_(imported) {}
  void release() noexcept;

  MemoryHandle handle_;
  Descriptor::Note note_;
  std::uint64_t imported_;  // the driver's name of the memory or of the pool; 0: moved away
};

}  // namespace opal::gpu
