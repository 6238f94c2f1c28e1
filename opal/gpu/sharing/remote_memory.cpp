// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/sharing/remote_memory.hpp"

#include <cstring>

#include "opal/core/log.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {

namespace {

constexpr auto kByFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// The physical memory behind an address, held as long as this exists.
class Allocation {
 public:
  explicit Allocation(std::uintptr_t address) noexcept {
    if (driver().retain_allocation(&handle_, reinterpret_cast<void*>(address)) != CUDA_SUCCESS) handle_ = 0;
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() {
    if (handle_ != 0) driver().release_allocation(handle_);
  }
  [[nodiscard]] CUmemGenericAllocationHandle get() const noexcept { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

/// Whether the memory was made to be shared by descriptor, and is one piece of it: several side by side have
/// several, and a driver that took them for one range would share the first alone.
bool mapped_to_share(const Memory& memory) noexcept {
  if (memory.size == 0) return false;
  const Allocation first{memory.base};
  const Allocation last{memory.base + memory.size - 1};
  CUmemAllocationProp properties{};
  return first.get() != 0 && first.get() == last.get() &&
         driver().allocation_properties(&properties, first.get()) == CUDA_SUCCESS &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && (properties.requestedHandleTypes & kByFile) != 0;
}

/// What a pool was created for no attribute of CUDA 12 tells (ALLOWED_HANDLE_TYPES is of virtual memory): it is tried.
bool pooled_to_share(const Memory& memory) noexcept {
  CUmemoryPool pool = nullptr;
  int fd = -1;
  if (driver().pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory.base) != CUDA_SUCCESS ||
      driver().export_pool(&fd, pool, kByFile, 0) != CUDA_SUCCESS) {
    return false;
  }
  const Fd tried{fd};
  return true;
}

Result<void> export_legacy(const Memory& memory, MemoryHandle& handle) noexcept {
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(memory.context));
  CUipcMemHandle made{};
  static_assert(sizeof(made) == sizeof(handle.driver));
  OPAL_TRY(check(driver().ipc_get_handle(&made, memory.base), "cuIpcGetMemHandle"));
  std::memcpy(handle.driver.data(), &made, sizeof(made));
  return {};
}

}  // namespace

Result<MemoryHandle> export_memory(const Memory& memory) noexcept {
  OPAL_TRY(usable());
  const bool by_descriptor = memory.buffer_id != 0 &&  // without it nothing would tell the next one from it
                             ((memory.kind == MemoryKind::mapped && mapped_to_share(memory)) ||
                              (memory.kind == MemoryKind::pooled && pooled_to_share(memory)));
  if (memory.kind != MemoryKind::legacy && !by_descriptor) {
    return Error{Errc::not_supported, 0, "gpu::export_memory(not made to be shared)",
                 static_cast<std::uint64_t>(memory.kind)};
  }
  MemoryHandle handle;
  handle.base = memory.base;
  handle.size = memory.size;
  handle.buffer_id = memory.buffer_id;
  handle.kind = static_cast<std::uint64_t>(memory.kind);
  OPAL_TRY_ASSIGN(handle.device, device_id(memory.device));
  if (memory.kind == MemoryKind::legacy) OPAL_TRY(export_legacy(memory, handle));
  make_synchronous(memory);
  return handle;
}

Result<std::uintptr_t> open_memory(const MemoryHandle& handle, ContextHandle context) noexcept {
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(context));
  CUipcMemHandle given{};
  std::memcpy(&given, handle.driver.data(), sizeof(given));
  CUdeviceptr address = 0;
  OPAL_TRY(check(driver().ipc_open_handle(&address, given, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle"));
  if (const auto checked = check_range(address, handle.size); !checked) {
    (void)driver().ipc_close_handle(address);
    return checked.error();
  }
  return std::uintptr_t{address};
}

void close_memory(std::uintptr_t address, ContextHandle context) noexcept {
  if (context == nullptr) return;
  const auto current = CurrentContext::enter(context);
  if (!current) return;
  if (const auto closed = check(driver().ipc_close_handle(address), "cuIpcCloseMemHandle"); !closed) {
    log::warn("gpu", "a mapping of another process's memory stays: {}", to_string(closed.error()));
  }
}

}  // namespace opal::gpu
