// SPDX-License-Identifier: Apache-2.0
// opal/gpu/memory.hpp — what a pointer points to.
// is_host() is for every message: without a driver one predictable branch, with one a lookup in a table of pages known
// to be the host's, and only for others a question to the driver.  inspect() is for what is not host memory.
// Nothing is remembered about device memory: the driver's answer is always of now, and buffer_id tells a block from a
// later one at the same address.  Threads: everything from any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/gpu.hpp"
#include "opal/gpu/host_pages.hpp"

struct CUctx_st;  // of cuda_api.hpp, which users of this header do not need

namespace opal::gpu {

/// A CUDA context of the program's; never owned here.
using ContextHandle = ::CUctx_st*;

enum class MemoryKind : std::uint8_t {
  host,     ///< nothing that the driver knows
  pinned,   ///< host memory that the driver knows: what comes from or goes there can be copied asynchronously
  managed,  ///< moves between host and devices by itself; only the driver copies it safely at any time
  legacy,   ///< cuMemAlloc: other processes open it by a 64-byte handle
  mapped,   ///< the virtual-memory functions: shared, if at all, by descriptors
  pooled,   ///< stream-ordered allocation: shared, if at all, by its pool's descriptor
  other,    ///< on a device, of a kind not known here: can only be copied
};

/// The allocation around an address.
struct Memory {
  MemoryKind kind = MemoryKind::host;
  int device = -1;                  ///< ordinal in this process; -1: host memory
  ContextHandle context = nullptr;  ///< in which it was allocated; null for mapped and pooled memory, and for host
  std::uintptr_t base = 0;          ///< of the allocation (mapped: of the mapping); 0 for host memory
  std::size_t size = 0;             ///< bytes from base; a buffer may go beyond, over several mappings side by side
  std::uint64_t buffer_id = 0;      ///< of this allocation, never again in this process; 0 for host memory

  /// The processor may read and write it like any memory.
  [[nodiscard]] bool on_host() const noexcept { return kind == MemoryKind::host || kind == MemoryKind::pinned; }
  /// All of [address, +length) is in this allocation.
  [[nodiscard]] bool contains(std::uintptr_t address, std::size_t length) const noexcept {
    return address >= base && address - base <= size && length <= size - (address - base);
  }
};

namespace detail {
OPAL_EXPORT bool ask_whether_host(const void* address) noexcept;
}  // namespace detail

/// Whether the processor may touch what is at `address`.  A buffer lies in one allocation, so its first byte tells for
/// all of it.
inline bool is_host(const void* address) noexcept {
  if (!active()) [[likely]]
    return true;
  memory::settle();
  return host_pages.contains(address) || detail::ask_whether_host(address);
}

/// The allocation around `address`, as the driver sees it now.  Without driver, or before the program initialised it:
/// host memory.  Errors: those of the driver, when it fails over memory of its own.
OPAL_EXPORT Result<Memory> inspect(const void* address) noexcept;

/// Makes the program's synchronous copies and fills of this memory really synchronous
/// (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS): within a device even cuMemcpy may return early, and our streams wait for none of
/// the program's.  Costs a call of the driver for memory not seen recently.  Kinds that have no such attribute are left
/// alone.
OPAL_EXPORT void make_synchronous(const Memory& memory) noexcept;

}  // namespace opal::gpu
