// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/sharing/remote_memory.hpp"

#include <cstring>

#include "opal/core/log.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {

namespace {

constexpr auto kByFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(Descriptor::Note));
static_assert(sizeof(CUmemGenericAllocationHandle) == sizeof(std::uint64_t) &&
              sizeof(CUmemoryPool) == sizeof(std::uint64_t));

CUmemoryPool pool_of(std::uint64_t imported) noexcept { return reinterpret_cast<CUmemoryPool>(imported); }

/// The physical memory behind an address, held as long as this exists.
class Allocation {
 public:
  explicit Allocation(std::uintptr_t address) noexcept
      : result_(driver().retain_allocation(&handle_, reinterpret_cast<void*>(address))) {
    if (result_ != CUDA_SUCCESS) handle_ = 0;
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() {
    if (handle_ != 0) driver().release_allocation(handle_);
  }
  [[nodiscard]] CUmemGenericAllocationHandle get() const noexcept { return handle_; }  ///< 0: there is none
  [[nodiscard]] CUresult result() const noexcept { return result_; }                   ///< why

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  CUresult result_;
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

Result<Descriptor> export_mapped(const Memory& memory) noexcept {
  const Allocation allocation{memory.base};
  OPAL_TRY(check(allocation.result(), "cuMemRetainAllocationHandle"));
  int fd = -1;
  OPAL_TRY(check(driver().export_allocation(&fd, allocation.get(), kByFile, 0), "cuMemExportToShareableHandle"));
  return Descriptor{Fd{fd}, {}};
}

Result<Fd> export_pool(const Memory& memory) noexcept {
  CUmemoryPool pool = nullptr;
  OPAL_TRY(check(driver().pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory.base),
                 "cuPointerGetAttribute(MEMPOOL_HANDLE)"));
  int fd = -1;
  OPAL_TRY(check(driver().export_pool(&fd, pool, kByFile, 0), "cuMemPoolExportToShareableHandle"));
  return Fd{fd};
}

Result<Descriptor> export_pooled(const Memory& memory) noexcept {
  OPAL_TRY_ASSIGN(Fd file, export_pool(memory));
  Descriptor descriptor{std::move(file), {}};
  CUmemPoolPtrExportData which{};
  OPAL_TRY(check(driver().export_pool_pointer(&which, memory.base), "cuMemPoolExportPointer"));
  std::memcpy(descriptor.note.data(), &which, sizeof which);
  return descriptor;
}

Result<void> export_legacy(const Memory& memory, MemoryHandle& handle) noexcept {
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(memory.context));
  CUipcMemHandle made{};
  static_assert(sizeof(made) == sizeof(handle.driver));
  OPAL_TRY(check(driver().ipc_get_handle(&made, memory.base), "cuIpcGetMemHandle"));
  std::memcpy(handle.driver.data(), &made, sizeof(made));
  return {};
}

/// Grants the device of the current context read and write access.
Result<CUmemAccessDesc> access_from_here() noexcept {
  CUdevice device = 0;
  OPAL_TRY(check(driver().context_get_device(&device), "cuCtxGetDevice"));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

Result<std::uintptr_t> map_allocation(CUmemGenericAllocationHandle allocation, std::size_t size) noexcept {
  OPAL_TRY_ASSIGN(const CUmemAccessDesc access, access_from_here());
  CUdeviceptr address = 0;
  OPAL_TRY(check(driver().reserve_addresses(&address, size, 0, 0, 0), "cuMemAddressReserve"));
  // The peer's size is not trusted: the driver checks it against the memory.
  auto done = check(driver().map(address, size, 0, allocation, 0), "cuMemMap");
  if (done) {
    done = check(driver().set_access(address, size, &access, 1), "cuMemSetAccess");
    if (!done) driver().unmap(address, size);
  }
  if (done) return std::uintptr_t{address};
  driver().free_addresses(address, size);
  return done.error();
}

Result<std::uintptr_t> map_pointer(CUmemoryPool pool, const Descriptor::Note& note, std::size_t size) noexcept {
  OPAL_TRY_ASSIGN(const CUmemAccessDesc access, access_from_here());
  OPAL_TRY(check(driver().set_pool_access(pool, &access, 1), "cuMemPoolSetAccess"));
  CUmemPoolPtrExportData which{};
  std::memcpy(&which, note.data(), sizeof which);
  CUdeviceptr address = 0;
  OPAL_TRY(check(driver().import_pool_pointer(&address, pool, &which), "cuMemPoolImportPointer"));
  if (const auto checked = check_range(address, size); !checked) {
    driver().free_memory(address);
    return checked.error();
  }
  return std::uintptr_t{address};
}

}  // namespace

Result<DeviceId> device_id(int ordinal) noexcept {
  OPAL_TRY(usable());
  CUuuid uuid{};
  OPAL_TRY(check(driver().device_get_uuid(&uuid, ordinal), "cuDeviceGetUuid"));
  DeviceId id;
  static_assert(sizeof(id.uuid) == sizeof(uuid.bytes));
  std::memcpy(id.uuid.data(), &uuid.bytes, sizeof(uuid.bytes));
  return id;
}

Result<std::optional<int>> ordinal_of(const DeviceId& device) noexcept {
  OPAL_TRY(usable());
  int count = 0;
  OPAL_TRY(check(driver().device_get_count(&count), "cuDeviceGetCount"));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    OPAL_TRY_ASSIGN(const DeviceId id, device_id(ordinal));
    if (id == device) return std::optional{ordinal};
  }
  return std::optional<int>{};
}

Result<bool> can_access(int ordinal, int peer) noexcept {
  OPAL_TRY(usable());
  if (ordinal == peer) return true;
  int can = 0;
  OPAL_TRY(check(driver().device_can_access_peer(&can, ordinal, peer), "cuDeviceCanAccessPeer"));
  return can != 0;
}

Result<MemoryHandle> export_memory(const Memory& memory) noexcept {
  OPAL_TRY(usable());
  const bool by_descriptor = memory.buffer_id != 0 &&  // without it nothing would tell the next one from it
                             ((memory.kind == MemoryKind::mapped && mapped_to_share(memory)) ||
                              // No attribute of CUDA 12 says what a pool was created for, so it is tried.
                              // (ALLOWED_HANDLE_TYPES is of virtual memory.)
                              (memory.kind == MemoryKind::pooled && export_pool(memory)));
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

// ---- By descriptor

Result<Descriptor> export_descriptor(const Memory& memory) noexcept {
  OPAL_TRY(usable());
  switch (memory.kind) {
    case MemoryKind::mapped: return export_mapped(memory);
    case MemoryKind::pooled: return export_pooled(memory);
    default:
      return Error{Errc::not_supported, 0, "gpu::export_descriptor(not memory that has one)",
                   static_cast<std::uint64_t>(memory.kind)};
  }
}

Result<ImportedMemory> ImportedMemory::take(const MemoryHandle& handle, Descriptor descriptor) noexcept {
  OPAL_TRY(usable());
  // The driver takes the descriptor's number in place of a pointer.
  void* const fd = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.file.get()));
  switch (handle.memory_kind()) {
    case MemoryKind::mapped: {
      CUmemGenericAllocationHandle allocation = 0;
      OPAL_TRY(check(driver().import_allocation(&allocation, fd, kByFile), "cuMemImportFromShareableHandle"));
      return ImportedMemory{handle, descriptor.note, allocation};
    }
    case MemoryKind::pooled: {
      CUmemoryPool pool = nullptr;
      OPAL_TRY(check(driver().import_pool(&pool, fd, kByFile, 0), "cuMemPoolImportFromShareableHandle"));
      return ImportedMemory{handle, descriptor.note, reinterpret_cast<std::uint64_t>(pool)};
    }
    default: return Error{Errc::protocol, 0, "gpu: a descriptor of memory that has none", handle.kind};
  }
}

ImportedMemory::~ImportedMemory() {
  if (imported_ == 0) return;
  // Mappings of the memory or the pool stay until they are unmapped.
  if (handle_.memory_kind() == MemoryKind::mapped) {
    driver().release_allocation(imported_);
  } else {
    driver().destroy_pool(pool_of(imported_));
  }
}

Result<std::uintptr_t> ImportedMemory::map(ContextHandle context) const noexcept {
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(context));
  return handle_.memory_kind() == MemoryKind::mapped ? map_allocation(imported_, handle_.size)
                                                     : map_pointer(pool_of(imported_), note_, handle_.size);
}

void ImportedMemory::unmap(const MemoryHandle& handle, std::uintptr_t address, ContextHandle context) noexcept {
  const auto current = CurrentContext::enter(context);  // an error is no reason to keep the mapping
  CUresult result = CUDA_SUCCESS;
  if (handle.memory_kind() == MemoryKind::mapped) {
    result = driver().unmap(address, handle.size);
    if (result == CUDA_SUCCESS) result = driver().free_addresses(address, handle.size);
  } else {
    result = driver().free_memory(address);
  }
  if (const auto undone = check(result, "cuMemUnmap or cuMemFree"); !undone) {
    log::warn("gpu", "a mapping of another process's memory stays: {}", to_string(undone.error()));
  }
}

}  // namespace opal::gpu
