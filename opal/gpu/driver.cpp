// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "opal/core/clock.hpp"
#include "opal/gpu/load.hpp"

namespace opal::gpu {
namespace {

Driver loaded;  // written once, before driver_loaded is set

using Find = decltype(&::cuGetProcAddress);

/// Collects functions and the names of those that are missing.
class Finder {
 public:
  explicit Finder(Find find) noexcept : find_(find) {}

  /// `since`: the CUDA version that brought the function in the form that cuda_api.hpp declares.
  template <class Function>
  void operator()(Function*& function, const char* name, int since) {
    void* found = nullptr;
    const CUresult result = find_(name, &found, since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
    function = reinterpret_cast<Function*>(found);
    if (result != CUDA_SUCCESS || found == nullptr) missing_ += fmt::format(" {}", name);
  }

  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

 private:
  Find find_;
  std::string missing_;
};

/// All that is used has been there since CUDA 12.0; a driver that lacks a part is not used at all.
std::string find_all(Driver& driver, Find find_function) {
  Finder find{find_function};
  find(driver.driver_get_version, "cuDriverGetVersion", 2020);
  find(driver.get_error_name, "cuGetErrorName", 6000);
  find(driver.device_get_count, "cuDeviceGetCount", 2000);
  find(driver.device_get_uuid, "cuDeviceGetUuid", 11040);
  find(driver.device_can_access_peer, "cuDeviceCanAccessPeer", 4000);
  find(driver.primary_context_get_state, "cuDevicePrimaryCtxGetState", 7000);
  find(driver.primary_context_retain, "cuDevicePrimaryCtxRetain", 7000);
  find(driver.primary_context_release, "cuDevicePrimaryCtxRelease", 11000);
  find(driver.context_get_current, "cuCtxGetCurrent", 4000);
  find(driver.context_get_id, "cuCtxGetId", 12000);
  find(driver.context_get_device, "cuCtxGetDevice", 2000);
  find(driver.context_push_current, "cuCtxPushCurrent", 4000);
  find(driver.context_pop_current, "cuCtxPopCurrent", 4000);
  find(driver.pointer_get_attribute, "cuPointerGetAttribute", 4000);
  find(driver.pointer_get_attributes, "cuPointerGetAttributes", 7000);
  find(driver.pointer_set_attribute, "cuPointerSetAttribute", 6000);
  find(driver.memory_get_address_range, "cuMemGetAddressRange", 3020);
  find(driver.host_alloc, "cuMemHostAlloc", 2020);
  find(driver.host_free, "cuMemFreeHost", 2000);
  find(driver.host_register, "cuMemHostRegister", 6050);
  find(driver.host_unregister, "cuMemHostUnregister", 4000);
  find(driver.ipc_get_handle, "cuIpcGetMemHandle", 4010);
  find(driver.ipc_open_handle, "cuIpcOpenMemHandle", 11000);
  find(driver.ipc_close_handle, "cuIpcCloseMemHandle", 4010);
  find(driver.copy_async, "cuMemcpyAsync", 4000);
  find(driver.stream_create, "cuStreamCreate", 2000);
  find(driver.stream_destroy, "cuStreamDestroy", 4000);
  find(driver.stream_query, "cuStreamQuery", 2000);
  find(driver.event_create, "cuEventCreate", 2000);
  find(driver.event_record, "cuEventRecord", 2000);
  find(driver.event_query, "cuEventQuery", 2000);
  find(driver.event_destroy, "cuEventDestroy", 4000);
  find(driver.retain_allocation, "cuMemRetainAllocationHandle", 11000);
  find(driver.release_allocation, "cuMemRelease", 10020);
  find(driver.allocation_properties, "cuMemGetAllocationPropertiesFromHandle", 10020);
  find(driver.export_allocation, "cuMemExportToShareableHandle", 10020);
  find(driver.import_allocation, "cuMemImportFromShareableHandle", 10020);
  find(driver.reserve_addresses, "cuMemAddressReserve", 10020);
  find(driver.free_addresses, "cuMemAddressFree", 10020);
  find(driver.map, "cuMemMap", 10020);
  find(driver.unmap, "cuMemUnmap", 10020);
  find(driver.set_access, "cuMemSetAccess", 10020);
  find(driver.export_pool, "cuMemPoolExportToShareableHandle", 11020);
  find(driver.import_pool, "cuMemPoolImportFromShareableHandle", 11020);
  find(driver.export_pool_pointer, "cuMemPoolExportPointer", 11020);
  find(driver.import_pool_pointer, "cuMemPoolImportPointer", 11020);
  find(driver.set_pool_access, "cuMemPoolSetAccess", 11020);
  find(driver.destroy_pool, "cuMemPoolDestroy", 11020);
  find(driver.free_memory, "cuMemFree", 3020);
  return find.missing();
}

Status refused(std::string why) { return {.loaded = false, .driver_version = 0, .why = std::move(why)}; }

}  // namespace

const Driver& driver() noexcept { return loaded; }

Result<void> wait_for(CUstream stream, std::chrono::milliseconds timeout) noexcept {
  const Deadline deadline = Deadline::after(timeout);
  for (;;) {
    const CUresult result = driver().stream_query(stream);
    if (result != CUDA_ERROR_NOT_READY) return check(result, "cuStreamQuery");
    if (deadline.expired()) return Error{Errc::timed_out, 0, "gpu: the copy does not end"};
  }
}

Result<void> check_range(CUdeviceptr address, std::uint64_t size) noexcept {
  CUdeviceptr base = 0;
  std::size_t whole = 0;
  if (driver().memory_get_address_range(&base, &whole, address) != CUDA_SUCCESS) return {};
  if (address >= base && address - base <= whole && size <= whole - (address - base)) return {};
  return Error{Errc::protocol, 0, "gpu: the peer's allocation is smaller than it says", size};
}

Status load_driver(const Config& config) {
  // Never unloaded: the program may use it, and its threads would not survive that.
  void* const library = ::dlopen(config.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refused(fmt::format("no CUDA driver: {}", ::dlerror()));
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) return refused(fmt::format("{} is older than CUDA 12.0", config.library));
  if (const std::string missing = find_all(loaded, find); !missing.empty()) {
    return refused(fmt::format("{} lacks{}", config.library, missing));
  }
  int version = 0;
  if (loaded.driver_get_version(&version) != CUDA_SUCCESS) {
    return refused(fmt::format("{}: cuDriverGetVersion failed", config.library));
  }
  return {.loaded = true, .driver_version = version, .why = {}};
}

Error error_of(CUresult result, const char* where) noexcept {
  const auto detail = static_cast<std::uint64_t>(result);
  switch (result) {
    case CUDA_ERROR_ALREADY_MAPPED: return {Errc::busy, 0, where, detail};
    case CUDA_ERROR_OUT_OF_MEMORY: return {Errc::no_memory, 0, where, detail};
    case CUDA_ERROR_TOO_MANY_PEERS: return {Errc::limit_reached, 0, where, detail};
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_NOT_SUPPORTED: return {Errc::not_supported, 0, where, detail};
    case CUDA_ERROR_NOT_PERMITTED: return {Errc::permission, 0, where, detail};
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_NOT_FOUND: return {Errc::invalid_argument, 0, where, detail};
    default: return {Errc::os, 0, where, detail};
  }
}

}  // namespace opal::gpu
