// SPDX-License-Identifier: Apache-2.0
// opal/gpu/memory.hpp — classifies memory by its address: host memory, or which kind of GPU memory.
// is_host() runs for every message.  Cost: without a driver one predictable branch; with one a lookup in host_pages,
// and a query of the driver if that misses.  inspect() describes memory that is not host memory. Nothing about device
// memory is cached; buffer_id differs between allocations at the same address.  Threads: any.
#pragma once
#include <chrono>
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
  host,     ///< memory unknown to the driver
  pinned,   ///< host memory registered with the driver: can be copied asynchronously
  managed,  ///< unified memory, which migrates between host and devices: copied only by the driver
  legacy,   ///< cuMemAlloc: other processes open it by a 64-byte handle
  mapped,   ///< virtual memory management (cuMemMap): shared, if created shareable, by descriptors
  pooled,   ///< stream-ordered allocation: shared, if created shareable, by the descriptor of its pool
  other,    ///< device memory of an unknown kind: can only be copied
};

/// The allocation around an address.
struct Memory {
  MemoryKind kind = MemoryKind::host;
  int device = -1;                  ///< ordinal in this process; -1: host memory
  ContextHandle context = nullptr;  ///< in which it was allocated; null for mapped and pooled memory, and for host
  std::uintptr_t base = 0;          ///< of the allocation (mapped: of the mapping); 0 for host memory
  std::size_t size = 0;             ///< bytes from base; a buffer may extend over several adjacent mappings
  std::uint64_t buffer_id = 0;      ///< unique per allocation in this process; 0 for host memory

  /// True if the processor may read and write it directly.
  [[nodiscard]] bool on_host() const noexcept { return kind == MemoryKind::host || kind == MemoryKind::pinned; }
  /// All of [address, +length) is in this allocation.
  [[nodiscard]] bool contains(std::uintptr_t address, std::size_t length) const noexcept {
    return address >= base && address - base <= size && length <= size - (address - base);
  }
};

namespace detail {
OPAL_EXPORT bool ask_whether_host(const void* address) noexcept;
}  // namespace detail

/// True if the library may access the memory at `address` by the processor: false also for managed memory.  The result
/// holds for a whole buffer, since a buffer lies in memory of one kind.
inline bool is_host(const void* address) noexcept {
  if (!active()) [[likely]]
    return true;
  return host_pages.contains(address) || detail::ask_whether_host(address);
}

/// The allocation around `address`, from a query of the driver.  Host memory if there is no driver or the program has
/// not initialised it.  Errors: those of the driver for memory that it knows.
OPAL_EXPORT Result<Memory> inspect(const void* address) noexcept;

/// Call it for both ends of a copy.  Makes the program's later cuMemcpy and cuMemset of this memory complete before
/// they return (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).  Otherwise these may return early, also cuMemcpyHtoD from pageable
/// memory, and the library's streams do not wait for the program's. Earlier calls may still be in flight, so the first
/// call for an allocation waits for the program's default stream of its context, but at most kFirstUse: kernels of the
/// program may be waiting for this process. Cost: a call of the driver for an allocation that is not among the up to
/// 256 whose ids are cached. No effect on kinds without this attribute (managed and pooled memory): the program waits
/// for its stream itself.
OPAL_EXPORT void make_synchronous(const Memory& memory) noexcept;
inline constexpr std::chrono::milliseconds kFirstUse{100};

}  // namespace opal::gpu
