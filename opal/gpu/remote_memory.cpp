// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/remote_memory.hpp"

#include <cstring>

#include "opal/core/log.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {

Result<MemoryHandle> export_memory(const Memory& memory) noexcept {
  OPAL_TRY(usable());
  if (memory.kind != MemoryKind::legacy) {
    return Error{Errc::not_supported, 0, "gpu::export_memory(only memory of cuMemAlloc has a handle)",
                 static_cast<std::uint64_t>(memory.kind)};
  }
  MemoryHandle handle;
  handle.base = memory.base;
  handle.size = memory.size;
  handle.buffer_id = memory.buffer_id;
  OPAL_TRY_ASSIGN(handle.device, device_id(memory.device));
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(memory.context));
  CUipcMemHandle made{};
  static_assert(sizeof(made) == sizeof(handle.driver));
  OPAL_TRY(check(driver().ipc_get_handle(&made, memory.base), "cuIpcGetMemHandle"));
  std::memcpy(handle.driver.data(), &made, sizeof(made));
  make_synchronous(memory);
  return handle;
}

Result<std::uintptr_t> open_memory(const MemoryHandle& handle, ContextHandle context) noexcept {
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(context));
  CUipcMemHandle given{};
  std::memcpy(&given, handle.driver.data(), sizeof(given));
  CUdeviceptr address = 0;
  OPAL_TRY(check(driver().ipc_open_handle(&address, given, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle"));
  // The size beside the driver's part is only the peer's word.  A driver that does not know the range of what it has
  // mapped leaves it at that.
  CUdeviceptr base = 0;
  std::size_t size = 0;
  if (driver().memory_get_address_range(&base, &size, address) == CUDA_SUCCESS &&
      (address < base || address - base > size || handle.size > size - (address - base))) {
    (void)driver().ipc_close_handle(address);
    return Error{Errc::protocol, 0, "gpu::open_memory: the peer's allocation is smaller than it says", handle.size};
  }
  return std::uintptr_t{address};
}

void close_memory(std::uintptr_t address, ContextHandle context) noexcept {
  const auto current = CurrentContext::enter(context);
  if (!current) return;
  if (const auto closed = check(driver().ipc_close_handle(address), "cuIpcCloseMemHandle"); !closed) {
    log::warn("gpu", "a mapping of another process's memory stays: {}", to_string(closed.error()));
  }
}

}  // namespace opal::gpu
