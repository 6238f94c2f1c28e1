// SPDX-License-Identifier: Apache-2.0
// opal/gpu/driver.hpp — the functions of the CUDA Driver API that are used here, found in the library that was loaded.
// Private to opal/gpu.
// Threads: a constant once loaded.
#pragma once
#include <chrono>

#include "opal/core/result.hpp"
#include "opal/gpu/cuda_api.hpp"

namespace opal::gpu {

struct Driver {
  decltype(&::cuDriverGetVersion) driver_get_version = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;

  decltype(&::cuDeviceGetCount) device_get_count = nullptr;
  decltype(&::cuDeviceGetUuid) device_get_uuid = nullptr;
  decltype(&::cuDeviceCanAccessPeer) device_can_access_peer = nullptr;
  decltype(&::cuDevicePrimaryCtxGetState) primary_context_get_state = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primary_context_retain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease) primary_context_release = nullptr;
  decltype(&::cuCtxGetCurrent) context_get_current = nullptr;
  decltype(&::cuCtxGetId) context_get_id = nullptr;
  decltype(&::cuCtxGetDevice) context_get_device = nullptr;
  decltype(&::cuCtxPushCurrent) context_push_current = nullptr;
  decltype(&::cuCtxPopCurrent) context_pop_current = nullptr;

  decltype(&::cuPointerGetAttribute) pointer_get_attribute = nullptr;
  decltype(&::cuPointerGetAttributes) pointer_get_attributes = nullptr;
  decltype(&::cuPointerSetAttribute) pointer_set_attribute = nullptr;
  decltype(&::cuMemGetAddressRange) memory_get_address_range = nullptr;
  decltype(&::cuMemHostAlloc) host_alloc = nullptr;
  decltype(&::cuMemFreeHost) host_free = nullptr;
  decltype(&::cuMemHostRegister) host_register = nullptr;
  decltype(&::cuMemHostUnregister) host_unregister = nullptr;

  decltype(&::cuIpcGetMemHandle) ipc_get_handle = nullptr;
  decltype(&::cuIpcOpenMemHandle) ipc_open_handle = nullptr;
  decltype(&::cuIpcCloseMemHandle) ipc_close_handle = nullptr;

  decltype(&::cuMemcpyAsync) copy_async = nullptr;
  decltype(&::cuStreamCreate) stream_create = nullptr;
  decltype(&::cuStreamDestroy) stream_destroy = nullptr;
  decltype(&::cuStreamQuery) stream_query = nullptr;
  decltype(&::cuEventCreate) event_create = nullptr;
  decltype(&::cuEventRecord) event_record = nullptr;
  decltype(&::cuEventQuery) event_query = nullptr;
  decltype(&::cuEventDestroy) event_destroy = nullptr;

  decltype(&::cuMemRetainAllocationHandle) retain_allocation = nullptr;
  decltype(&::cuMemRelease) release_allocation = nullptr;
  decltype(&::cuMemGetAllocationPropertiesFromHandle) allocation_properties = nullptr;
  decltype(&::cuMemExportToShareableHandle) export_allocation = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import_allocation = nullptr;
  decltype(&::cuMemAddressReserve) reserve_addresses = nullptr;
  decltype(&::cuMemAddressFree) free_addresses = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;

  decltype(&::cuMemPoolExportToShareableHandle) export_pool = nullptr;
  decltype(&::cuMemPoolImportFromShareableHandle) import_pool = nullptr;
  decltype(&::cuMemPoolExportPointer) export_pool_pointer = nullptr;
  decltype(&::cuMemPoolImportPointer) import_pool_pointer = nullptr;
  decltype(&::cuMemPoolSetAccess) set_pool_access = nullptr;
  decltype(&::cuMemPoolDestroy) destroy_pool = nullptr;
  decltype(&::cuMemFree) free_memory = nullptr;
};

/// The loaded driver.  Only while active().
const Driver& driver() noexcept;

/// What `result`, not success, means to the caller; `where` names the function, detail is the CUresult.
///   busy: already mapped.  no_memory: no memory, of the device or for a mapping.  limit_reached: too many peers.
///   not_supported: not initialised, no device, no access between the devices, not for this memory.
///   invalid_argument: what was passed is not (any more) what the function wants.  os: the rest.
Error error_of(CUresult result, const char* where) noexcept;

/// The same for functions that may succeed.
inline Result<void> check(CUresult result, const char* where) noexcept {
  if (result == CUDA_SUCCESS) return {};
  return error_of(result, where);
}

/// Waits until everything in the stream is done.  Not by cuStreamSynchronize, which waits for ever for a device that
/// hangs.  Errors: timed_out (by then it was not), those of cuStreamQuery.
Result<void> wait_for(CUstream stream, std::chrono::milliseconds timeout) noexcept;

/// Whether `size` bytes from `address`, where a peer's memory was mapped, are mapped: the size is only the peer's word.
/// A driver that does not know the range of what it has mapped leaves it at that.  Errors: protocol.
Result<void> check_range(CUdeviceptr address, std::uint64_t size) noexcept;

}  // namespace opal::gpu
